"""Text without translations: its different lines, in an order that says nothing about them."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from allyouneed.data.bad_lines import empty_message
from allyouneed.data.corpus import require_rereadable
from allyouneed.data.lines import is_blank, read_lines
from allyouneed.errors import DataError

_SAMPLE_LINES = 1_000
_SEPARATORS = re.compile(r"[\t\r]")


class MonolingualText:
    """The different lines of a file, plain or compressed, in the order of their digests.

    Files are often sorted, by length for example. By digests, the first lines stand for the whole text, and
    the lines chosen do not depend on where they are. Tabs and carriage returns become spaces; blank lines are
    left out.

    Raises:
        UsageError: The file is a pipe.
        DataError: The file is missing, has no text, or has a line that is not UTF-8 or contains a NUL.
    """

    def __init__(self, file: Path) -> None:
        require_rereadable([file])
        self.file = file
        ranks = np.fromiter(map(rank, self._texts()), np.uint64)
        self._ranks = np.unique(ranks)
        self.num_lines = len(self._ranks)
        """Number of different lines."""
        self.num_repeats = len(ranks) - self.num_lines
        """Number of lines that repeat an earlier one."""
        if not self.num_lines:
            raise DataError(empty_message(file))
        self.sample = self.first(_SAMPLE_LINES)
        """Its first lines, by which it is judged."""

    def first(self, number: int) -> list[str]:
        """The first lines; all if there are fewer than `number`."""
        last = int(self._ranks[:number][-1])
        found = {place: text for text in self._texts() if (place := rank(text)) <= last}
        return [found[place] for place in sorted(found)]

    def shares_letters(self, others: Iterable[str]) -> bool:
        """Whether one of the letters of the sample is in other texts, or it has none."""
        own = _letters(self.sample)
        return not own or not own.isdisjoint(_letters(others))

    def _texts(self) -> Iterator[str]:
        lines = read_lines(self.file, allow_nul=False)
        return (_SEPARATORS.sub(" ", line) for line in lines if not is_blank(line))


def rank(text: str) -> int:
    """The place of a line in an order that says nothing about it: its digest as a number."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _letters(texts: Iterable[str]) -> set[str]:
    return {letter for text in texts for letter in set(text.lower()) if letter.isalpha()}
