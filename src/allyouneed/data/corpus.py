"""Sentence pairs from parallel or tab-separated files, checked, cleaned and accounted for (paper 5.1)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.lines import LineCounts, is_blank, read_lines
from allyouneed.errors import MAX_REPORTED, DataError, UsageError
from allyouneed.storage.publish import disk_errors

MAX_EXAMPLES = 5
"""How many places are named for each reason why pairs were dropped."""

_MIN_CHARACTERS_FOR_RATIO = 60  # "Ja." and "Yes, of course I will." do belong together


class Pair(NamedTuple):
    """A sentence, its translation, and where they stand: the line, from 1, in (source) file `file`."""

    source: str
    target: str
    line_number: int
    file: str


class DropReason(StrEnum):
    """Why a pair is not used."""

    EMPTY_SOURCE = "empty source"
    EMPTY_TARGET = "empty target"
    TOO_MANY_CHARACTERS = "too many characters"
    TOO_MANY_WORDS = "too many words"
    CHARACTER_RATIO = "lengths in characters too different"
    TOO_MANY_TOKENS = "too many tokens"
    TOKEN_RATIO = "lengths in tokens too different"


@dataclass(frozen=True)
class CleaningLimits:  # Deviation: the paper mentions no filters; see docs/paper.md.
    """What a pair may be before it is tokenised: wide limits, that stop only what can be no sentence pair."""

    max_words: int = 1_000
    """Words a side, as white space separates them."""
    max_characters: int = 10_000
    """Characters a side."""
    max_length_ratio: float = 9.0
    """The longer side over the shorter in characters, where the longer has over 60; 9 as in Moses."""


class Reader(Protocol):
    """Where the examples of a corpus come from: files of one format or several."""

    @property
    def limits(self) -> CleaningLimits:
        """What examples may be before they are tokenised."""

    def __bool__(self) -> bool:
        """Whether there is any file."""

    def read(self, report: "CleaningReport") -> Iterator[Pair]:
        """All examples; that all files are there is checked at the call.

        Raises:
            UsageError: A file is a pipe, or files do not belong together.
            DataError: Files are missing, empty, or hold what is no example.
        """

    def distinct(self) -> "Reader":
        """What units are learned from: the examples without repetitions and what was made of them."""


@dataclass
class Dropped:
    """How many pairs were dropped for one reason, and where the first of them are."""

    num_pairs: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class CleaningReport:
    """An account of every line: what was read, repaired, dropped and why, and so what was kept."""

    num_read: int = 0
    num_with_more_columns: int = 0
    """Tab-separated lines with columns after the second, which are ignored."""
    files: dict[str, LineCounts] = field(default_factory=dict)
    dropped: dict[DropReason, Dropped] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    """What else is worth telling, and how often it was met."""

    @property
    def num_dropped(self) -> int:
        """Pairs dropped for any reason."""
        return sum(dropped.num_pairs for dropped in self.dropped.values())

    @property
    def num_kept(self) -> int:
        """Pairs read and not dropped."""
        return self.num_read - self.num_dropped

    def drop(self, reason: DropReason, pair: Pair) -> None:
        """Count `pair` as dropped."""
        dropped = self.dropped.setdefault(reason, Dropped())
        dropped.num_pairs += 1
        if len(dropped.examples) < MAX_EXAMPLES:
            dropped.examples.append(f"{pair.file}:{pair.line_number}")

    def to_dict(self) -> dict[str, Any]:
        """The report in plain types, as JSON has them."""
        return {
            "num_kept": self.num_kept,
            "num_dropped": self.num_dropped,
            **asdict(self),
            "notes": dict(self.notes),
        }

    def lines(self, counted: str = "pairs") -> list[str]:
        """The report for people, to whom pairs may be called something else."""
        ignored = self.num_with_more_columns
        return [
            *(_file_line(file, counts) for file, counts in self.files.items()),
            *(f"{number:,} {what}" for what, number in self.notes.items() if number),
            *([f"{ignored:,} lines have columns after the second; these are ignored"] if ignored else []),
            f"{self.num_read:,} {counted} read, {self.num_kept:,} kept, {self.num_dropped:,} dropped",
            *(
                f"  {dropped.num_pairs:,} dropped: {reason} ({_some(dropped.examples, dropped.num_pairs)})"
                for reason, dropped in self.dropped.items()
            ),
        ]


def read_parallel(
    sources: Sequence[Path], targets: Sequence[Path], report: CleaningReport | None = None
) -> Iterator[Pair]:
    """Read pairs from files of which line i of one translates line i of the other.

    The files are checked at the call, and may be read again by another call.

    Args:
        sources: Files in the source language, read one after the other; `.gz` and `.zst` too.
        targets: As many files in the target language, in the same order.
        report: Receives what was read of each file.

    Raises:
        UsageError: The numbers of files differ, or one of them is a pipe.
        DataError: Files are missing, empty, the same on both sides, or of different length, or a line is
            not UTF-8 or has a NUL.
    """
    if len(sources) != len(targets):
        raise UsageError(
            f"{len(sources)} source files, but {len(targets)} target files; give as many of each"
        )
    require_rereadable([*sources, *targets])
    for source, target in zip(sources, targets, strict=True):
        if source.samefile(target):
            raise DataError(
                f"{source}: is both source and target; name the translation, or a copy to learn copying"
            )
    report = CleaningReport() if report is None else report
    return (pair for files in zip(sources, targets, strict=True) for pair in _read_two_files(*files, report))


def read_tab_separated(file: Path, report: CleaningReport) -> Iterator[Pair]:
    """Read pairs from lines of `source TAB target`; what follows a second tab is ignored and counted.

    Raises:
        DataError: The file is empty, or a line has no tab, is not UTF-8 or has a NUL.
    """
    rows = enumerate(
        (line.split("\t") for line in read_lines(file, _counts_of(file, report), allow_nul=False)), 1
    )
    number = 0
    for number, columns in rows:
        if len(columns) < 2:
            later = (later_number for later_number, later_columns in rows if len(later_columns) < 2)
            numbers = [number, *islice(later, MAX_REPORTED - 1)]
            raise DataError([f"{file}:{n}: no tab; write source TAB target on each line" for n in numbers])
        report.num_with_more_columns += len(columns) > 2
        yield Pair(columns[0], columns[1], number, str(file))
    if number == 0:
        raise DataError(_empty(file))


def clean_pairs(pairs: Iterable[Pair], limits: CleaningLimits, report: CleaningReport) -> Iterator[Pair]:
    """The pairs worth tokenising, unchanged; the others are dropped into `report`."""
    for pair in pairs:
        report.num_read += 1
        if reason := _reason_to_drop(pair, limits):
            report.drop(reason, pair)
        else:
            yield pair


def require_rereadable(files: Iterable[Path]) -> None:
    """Refuse files that are missing, and pipes, which cannot be read twice: to learn sub-words and to encode.

    Raises:
        UsageError: A file is a pipe or standard input.
        DataError: Files are missing or directories; all are named.
    """
    missing = []
    for file in files:
        with disk_errors(file):
            if file == Path("-") or (file.exists() and not file.is_file() and not file.is_dir()):
                raise UsageError(f"{file}: is a pipe, but is needed twice; save it to a file first")
            if not file.is_file():
                missing.append(
                    f"{file}: {'is a directory' if file.is_dir() else 'no such file'}; check the path"
                )
    if missing:
        raise DataError(missing)


def find_drift(longer: NDArray[np.int64], shorter: NDArray[np.int64]) -> int:
    """Where a text of which some lines got lost stops being parallel to its translation, by line lengths.

    The lines are taken to be lost at one place: before it line i belongs to line i, after it to line i plus
    the number of lost ones. Among all places, the one where the lengths fit best is found.

    Args:
        longer: Length of each line of the whole text.
        shorter: Length of each line of the other, at least one.

    Returns:
        The first line, from 1, of the longer text that the shorter one has lost.
    """
    longer_log, shorter_log = np.log1p(longer), np.log1p(shorter)
    typical = np.median(longer_log) - np.median(shorter_log)
    num_lost = len(longer) - len(shorter)
    misfit_before = np.abs(longer_log[: len(shorter)] - shorter_log - typical)
    misfit_after = np.abs(longer_log[num_lost:] - shorter_log - typical)
    misfit = np.concatenate(([0.0], np.cumsum(misfit_before - misfit_after)))
    return int(misfit.argmin()) + 1


def _read_two_files(source: Path, target: Path, report: CleaningReport) -> Iterator[Pair]:
    source_lines = read_lines(source, _counts_of(source, report), allow_nul=False)
    target_lines = read_lines(target, _counts_of(target, report), allow_nul=False)
    number = 0
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines), start=1):
        if source_line is None or target_line is None:
            raise _different_length(source, target)
        yield Pair(source_line, target_line, number, str(source))
    if number == 0:
        raise DataError([_empty(source), _empty(target)])


def _different_length(source: Path, target: Path) -> DataError:
    lengths = {file: np.array([len(line) for line in read_lines(file)]) for file in (source, target)}
    shorter, longer = sorted(lengths, key=lambda file: len(lengths[file]))
    if not len(lengths[shorter]):
        return DataError(_empty(shorter))
    return DataError(
        f"{source} has {len(lengths[source]):,} lines, {target} has {len(lengths[target]):,}; "
        f"line {len(lengths[shorter]) + 1:,} is only in {longer}; by the lengths of their lines, "
        f"they part near line {find_drift(lengths[longer], lengths[shorter]):,}; mend the files there"
    )


def _counts_of(file: Path, report: CleaningReport) -> LineCounts:
    """New counts for one reading of `file`, also kept in the report."""
    report.files[str(file)] = LineCounts()
    return report.files[str(file)]


def _reason_to_drop(pair: Pair, limits: CleaningLimits) -> DropReason | None:
    if is_blank(pair.source):
        return DropReason.EMPTY_SOURCE
    if is_blank(pair.target):
        return DropReason.EMPTY_TARGET
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if longer > limits.max_characters:
        return DropReason.TOO_MANY_CHARACTERS
    has_room = longer > 2 * limits.max_words  # for so many words, with a space between each two
    if has_room and max(len(pair.source.split()), len(pair.target.split())) > limits.max_words:
        return DropReason.TOO_MANY_WORDS
    if longer > _MIN_CHARACTERS_FOR_RATIO and longer > limits.max_length_ratio * shorter:
        return DropReason.CHARACTER_RATIO
    return None


def _file_line(file: str, counts: LineCounts) -> str:
    returns = counts.num_carriage_returns
    return "; ".join(
        [
            f"{file}: {counts.num_lines:,} lines",
            *([f"{returns:,} carriage returns removed"] if returns else []),
            *(["byte order mark removed"] if counts.has_byte_order_mark else []),
        ]
    )


def _some(examples: Sequence[str], total: int) -> str:
    return ", ".join([*examples, *(["..."] if total > len(examples) else [])])


def _empty(file: Path) -> str:
    return f"{file}: is empty; give a file with one sentence a line"
