"""Lines of a corpus that cannot be used: one ends the reading, or a few are dropped."""

from collections.abc import Iterator
from pathlib import Path

from allyouneed.data.lines import LineCounts, read_lines, read_lines_or_errors
from allyouneed.errors import DataError

_FEWEST_LINES = 10_000
"""Number of lines before which the share of bad ones says little."""
_MOST = 0.5
"""Share of bad lines, among those read so far, above which the whole file is taken for unusable."""


class BadLines:
    """Counts the bad lines of a file.

    Args:
        max_share: Share of the lines up to which bad ones are dropped; None: the first is an error. The share
            is that of the whole file, which is read to its end unless most of its first lines are bad.
        max_bytes: Most bytes that a file may have.
    """

    def __init__(self, max_share: float | None, max_bytes: int | None = None) -> None:
        self._max_share, self.max_bytes = max_share, max_bytes
        self._num = 0
        self._first: DataError | None = None

    def lines(self, file: Path, counts: LineCounts) -> Iterator[str | DataError]:
        """The lines of a file, or the errors of bad ones if these are dropped.

        Raises:
            DataError: A line is bad, and none is dropped, or the file is too long.
        """
        read = read_lines if self._max_share is None else read_lines_or_errors
        return read(file, counts, allow_nul=False, max_bytes=self.max_bytes)

    def drop(self, error: DataError, num_lines: int) -> None:
        """Count a bad line that is dropped.

        Args:
            error: Why it cannot be used.
            num_lines: Number of lines read so far.

        Raises:
            DataError: There are too many, or the whole file is of another kind.
        """
        if error.label == "E-UTF16":
            raise error
        self._num, self._first = self._num + 1, self._first or error
        if self._num > _MOST * num_lines:
            self._require_few(num_lines, max(num_lines, _FEWEST_LINES))

    def end(self, num_lines: int) -> None:
        """Check the number of bad lines at the end of a file.

        Raises:
            DataError: There are too many.
        """
        self._require_few(num_lines, num_lines)

    def _require_few(self, num_read: int, num_lines: int) -> None:
        most = (self._max_share or 0) * num_lines
        if self._first and self._num > most:
            raise DataError(
                f"{self._first.messages[0]} ({self._num:,} of the first {num_read:,} lines cannot be used, "
                f"more than max_bad_share = {self._max_share:g} allows)",
                label=self._first.label,
                settings=["max_bad_share"],
            )
