"""The ids every vocabulary reserves: text never encodes to them, and search never produces the first four."""

PADDING = 0
START = 1
END = 2
SENTINEL = 3
UNKNOWN = 4
