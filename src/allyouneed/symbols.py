"""Ids that every vocabulary reserves. No text encodes to them; search writes neither padding nor start."""

from typing import Final

PADDING = 0
START = 1
END = 2
SENTINEL = 3
UNKNOWN = 4

CONTROL_SYMBOLS: Final = ("<pad>", "<s>", "</s>", "<sentinel>", "<unk>")
"""How these ids are written in files and pictures, in their order."""
