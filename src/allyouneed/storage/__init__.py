"""Files on disk: directories that are complete or absent, checkpoints, and the files of a run."""
