"""Files that should match line by line, and do not."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.lines import read_lines_or_errors
from allyouneed.errors import DataError


def different_length(source: Path, target: Path, max_bytes: int | None = None) -> DataError:
    """The error of two files with different numbers of lines; names the place where they drift apart.

    Args:
        source: A file.
        target: The other file.
        max_bytes: Maximum bytes of text per file; by default there is no limit.

    Raises:
        DataError: A file has more.
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


def _lengths(file: Path, max_bytes: int | None) -> NDArray[np.int64]:
    lines = read_lines_or_errors(file, max_bytes=max_bytes)
    return np.fromiter((len(line) if isinstance(line, str) else 0 for line in lines), np.int64)


def find_drift(longer: NDArray[np.int64], shorter: NDArray[np.int64]) -> int:
    """Estimate where a text that has lost lines stops being parallel to its translation.

    Assumes that all lines were lost in one place, and finds the place where the lengths of the remaining
    lines fit best.

    Args:
        longer: Length of each line of the complete text.
        shorter: Length of each line of the other text, which has at least one line.

    Returns:
        Number, from 1, of the first line of the longer text that is missing from the shorter one.
    """
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
