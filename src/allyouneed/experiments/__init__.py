"""What the paper reports, computed again: its costs and its tables."""
