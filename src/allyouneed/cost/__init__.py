"""What a run will cost, and what it has cost."""
