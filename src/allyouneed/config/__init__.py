"""The settings of models and runs, presets, and deviations from the paper's recipe."""
