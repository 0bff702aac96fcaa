"""What can be set: the settings of models and runs, presets, and whose recipe they follow."""
