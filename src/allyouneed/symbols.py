"""Ids that every vocabulary reserves, and how many it may have.

No text encodes to the reserved ones; search writes neither padding nor start.
"""

from typing import Final

PADDING = 0
START = 1
END = 2
SENTINEL = 3
UNKNOWN = 4

NEVER_PRODUCED: Final = (PADDING, START, SENTINEL)
"""Ids that no hypothesis contains. Their probability is not redistributed to the other ids."""

CONTROL_SYMBOLS: Final = ("<pad>", "<s>", "</s>", "<sentinel>", "<unk>")
"""How these ids are written in files and pictures, in their order."""

MAX_ENTRIES: Final = 1_000_000
"""The most entries of a vocabulary, control symbols included, of one to be learned or to be read."""
