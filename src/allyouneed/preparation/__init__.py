"""From corpus files to prepared data."""
