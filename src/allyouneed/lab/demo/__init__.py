"""The demo: its grammar, its baselines and its run."""
