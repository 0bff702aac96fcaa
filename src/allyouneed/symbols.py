"""Ids that every vocabulary reserves. No text encodes to them; search writes neither padding nor start."""

PADDING = 0
START = 1
END = 2
SENTINEL = 3
UNKNOWN = 4
