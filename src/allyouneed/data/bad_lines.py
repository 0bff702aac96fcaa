"""Faults of corpus files: lines that cannot be used, and files that do not match line by line."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.data.lines import LineCounts, read_lines, read_lines_or_errors
from allyouneed.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST_LINES = 10_000
"""Number of lines before which the share of bad ones says little."""
_MOST = 0.5
"""Share of bad lines, among those read so far, above which the whole file is taken for unusable."""


class BadLines:
    """Counts the bad lines of a file of at most `max_bytes`.

    `max_share` is the share of the lines up to which bad ones are dropped; None: the first is an error. It is
    that of the whole file, which is read to its end unless most of its first lines are bad.
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
        """Count a bad line that is dropped, after reading `num_lines`.

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


def different_length(source: Path, target: Path, max_bytes: int | None = None) -> DataError:
    """The error of two files with different numbers of lines; names the place where they drift apart.

    Raises:
        DataError: A file has more than `max_bytes` of text.
    """
    lengths = {file: _lengths(file, max_bytes) for file in (source, target)}
    shorter, longer = sorted(lengths, key=lambda file: len(lengths[file]))
    if not len(lengths[shorter]):
        return DataError(empty_message(shorter))
    return DataError(
        f"{source} has {len(lengths[source]):,} lines, {target} has {len(lengths[target]):,}; "
        f"line {len(lengths[shorter]) + 1:,} is only in {longer}; by the lengths of their lines, "
        f"they drift apart near line {find_drift(lengths[longer], lengths[shorter]):,}; mend the files there"
    )


def _lengths(file: Path, max_bytes: int | None) -> "NDArray[np.int64]":
    import numpy as np

    lines = read_lines_or_errors(file, max_bytes=max_bytes)
    return np.fromiter((len(line) if isinstance(line, str) else 0 for line in lines), np.int64)


def find_drift(longer: "NDArray[np.int64]", shorter: "NDArray[np.int64]") -> int:
    """Estimate where a text that has lost lines stops being parallel to its translation.

    Assumes that all lines were lost in one place, and finds the place where the lengths of the remaining
    lines fit best.

    Args:
        longer: Length of each line of the complete text.
        shorter: Length of each line of the other text, which has at least one line.

    Returns:
        Number, from 1, of the first line of the longer text that is missing from the shorter one.
    """
    import numpy as np  # only for files that are wrong

    longer_log, shorter_log = np.log1p(longer), np.log1p(shorter)
    typical = np.median(longer_log) - np.median(shorter_log)
    num_lost = len(longer) - len(shorter)
    misfit_before = np.abs(longer_log[: len(shorter)] - shorter_log - typical)
    misfit_after = np.abs(longer_log[num_lost:] - shorter_log - typical)
    misfit = np.concatenate(([0.0], np.cumsum(misfit_before - misfit_after)))
    return int(misfit.argmin()) + 1


def empty_message(file: Path) -> str:
    """The message about a file without lines."""
    return f"{file}: is empty; give a file with one sentence a line"
