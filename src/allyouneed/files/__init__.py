"""Files of other programs, such as documents, subtitles and catalogues, and their translations."""
