"""The demo: its grammar, its yardsticks and its run."""
