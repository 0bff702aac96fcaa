"""Which differences between rows of results are more than chance."""
