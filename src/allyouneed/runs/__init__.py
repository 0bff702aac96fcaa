"""From data and settings to a model: runs, and models that are loaded."""
