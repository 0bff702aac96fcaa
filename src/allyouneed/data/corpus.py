"""Reads sentence pairs from parallel files, cleans them, and reports on them (paper 5.1)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from allyouneed.data.bad_lines import BadLines, different_length, empty_message
from allyouneed.data.lines import LineCounts, is_blank
from allyouneed.errors import DataError, UsageError
from allyouneed.language_codes import Direction
from allyouneed.storage.publish import disk_errors

MAX_EXAMPLES = 5
"""Maximum number of examples that a report gives for each reason to drop pairs."""

_COPIES = "pairs are copies of their source"
_MIN_CHARACTERS_FOR_RATIO = 60  # "Ja." and "Yes, of course I will." do belong together


class DropReason(StrEnum):
    """A reason to drop a pair."""

    BAD_LINE = "unusable line"
    LOW_SCORE = "score too low"
    NO_TRANSLATION = "without one of the languages"
    EMPTY_SOURCE = "empty source"
    EMPTY_TARGET = "empty target"
    TOO_MANY_CHARACTERS = "too many characters"
    TOO_MANY_WORDS = "too many words"
    COPY = "copy of the source"
    REPEAT = "repeat of an earlier pair"
    CHARACTER_RATIO = "lengths in characters too different"
    TOO_MANY_TOKENS = "too many tokens"
    TOKEN_RATIO = "lengths in tokens too different"
    LANGUAGE = "in another language"
    WEIGHT = "left out by the weight of the file"


class Pair(NamedTuple):
    """A sentence and its translation, with their line number, from 1, in the (source) file `file`."""

    source: str
    target: str
    line_number: int
    file: str
    dropped: DropReason | None = None
    """The reason for which its reader drops it; its texts are then empty."""
    direction: Direction | None = None
    """The direction that its file is named after."""


@dataclass(frozen=True)
class CleaningLimits:  # Deviation: the paper mentions no filters; see docs/paper.md.
    """The limits on pairs; those on lengths are wide enough for every real sentence pair."""

    max_words: int = 1_000
    """Maximum number of words per side, separated by white space."""
    max_characters: int = 10_000
    """Maximum number of characters per side."""
    max_length_ratio: float = 9.0
    """Maximum ratio of the longer side to the shorter, in characters, if the longer has more than 60; 9 as in
    Moses."""
    drop_copies: bool = False
    """Whether pairs of equal sides are dropped."""
    drop_repeats: bool = False
    """Whether training pairs that have come before are dropped, by `prepare`."""
    languages: tuple[str, str] | None = None
    """Codes of the languages that training pairs must have; see `data.languages`."""


class Reader(Protocol):
    """The files that the examples of a corpus come from, in one format or several."""

    @property
    def limits(self) -> CleaningLimits:
        """Limits on examples before tokenisation."""

    def __bool__(self) -> bool:
        """Whether there are any files."""

    def read(self, report: "CleaningReport") -> Iterator[Pair]:
        """All examples. The call checks that all files exist before it returns.

        Raises:
            UsageError: A file is a pipe, or files do not belong together.
            DataError: Files are missing, empty, or malformed.
        """

    @property
    def all_files(self) -> list[Path]:
        """All files that are read."""

    def require_usable(self) -> None:
        """Check all that can be checked without reading.

        Raises:
            UsageError: Settings contradict each other, or need a package that is not installed.
            DataError: Settings leave no example.
        """

    @property
    def directions(self) -> Sequence[Direction]:
        """Directions that the files are named after, each once."""

    def weights_by_file(self) -> Mapping[tuple[str, Direction | None], float]:
        """(Source) file and direction -> how often an example is wanted, on average; others, once."""

    def distinct(self) -> "Reader":
        """The corpus to learn units from: without repeated, derived or unwanted examples."""


@dataclass
class Dropped:
    """The number of pairs dropped for one reason, and the places of the first ones."""

    num_pairs: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class CleaningReport:
    """Counts of the lines read, repaired and dropped, with the reasons."""

    num_read: int = 0
    files: dict[str, LineCounts] = field(default_factory=dict)
    dropped: dict[DropReason, Dropped] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    """Other findings -> number of times each was made."""

    @property
    def num_dropped(self) -> int:
        """Number of pairs dropped, for any reason."""
        return sum(dropped.num_pairs for dropped in self.dropped.values())

    @property
    def num_kept(self) -> int:
        """Number of pairs read and not dropped."""
        return self.num_read - self.num_dropped

    def drop(self, reason: DropReason, pair: Pair) -> None:
        """Count `pair` as dropped."""
        dropped = self.dropped.setdefault(reason, Dropped())
        dropped.num_pairs += 1
        if len(dropped.examples) < MAX_EXAMPLES:
            dropped.examples.append(f"{pair.file}:{pair.line_number}")

    def add(self, other: "CleaningReport") -> None:
        """Add what was found in a later step: pairs dropped there, and notes."""
        for reason, found in other.dropped.items():
            own = self.dropped.setdefault(reason, Dropped())
            own.num_pairs += found.num_pairs
            own.examples = (own.examples + found.examples)[:MAX_EXAMPLES]
        self.notes += other.notes

    @classmethod
    def of_drops(cls, found: Mapping[str, Any]) -> Self:
        """The report of a step from its JSON values.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        dropped = {DropReason(name): Dropped(**each) for name, each in found["dropped"].items()}
        return cls(dropped=dropped, notes=Counter(found["notes"]))

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "num_kept": self.num_kept,
            "num_dropped": self.num_dropped,
            **asdict(self),
            "dropped": {reason: asdict(dropped) for reason, dropped in self._in_order},
            "notes": dict(sorted(self.notes.items())),
        }

    def lines(self, counted: str = "pairs") -> list[str]:
        """The report as lines of text; `counted` is the word for pairs."""
        return [
            *(_file_line(file, counts) for file, counts in self.files.items()),
            *(f"{number:,} {what}" for what, number in sorted(self.notes.items()) if number),
            f"{self.num_read:,} {counted} read, {self.num_kept:,} kept, {self.num_dropped:,} dropped",
            *(
                f"  {dropped.num_pairs:,} dropped: {reason} ({_some(dropped.examples, dropped.num_pairs)})"
                for reason, dropped in self._in_order
            ),
        ]

    @property
    def _in_order(self) -> list[tuple[DropReason, Dropped]]:
        """The drops in the order of `DropReason`; that of finding them depends on reading ahead."""
        return [(reason, self.dropped[reason]) for reason in DropReason if reason in self.dropped]


def read_parallel(
    sources: Sequence[Path],
    targets: Sequence[Path],
    report: CleaningReport | None = None,
    *,
    max_bad_share: float | None = None,
    max_bytes: int | None = None,
) -> Iterator[Pair]:
    """Read pairs from line-aligned text files, plain or compressed: one target file for each source file.

    The call checks the files before it returns. Files may be read again by another call.

    Args:
        sources: Files in the source language, read in order.
        targets: Files in the target language.
        report: Report to which the lines of each file are added.
        max_bad_share: Share of unusable lines in a file up to which each yields a dropped pair; by default
            the first one is an error.
        max_bytes: Most bytes of text in a file.

    Raises:
        UsageError: The numbers of files differ, or a file is a pipe.
        DataError: Files are missing, empty, of different lengths, or the same on both sides, or a line is
            not UTF-8 or contains a NUL.
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
    return (
        pair
        for files in zip(sources, targets, strict=True)
        for pair in _read_two_files(*files, report, BadLines(max_bad_share, max_bytes))
    )


def clean_pairs(pairs: Iterable[Pair], limits: CleaningLimits, report: CleaningReport) -> Iterator[Pair]:
    """The pairs within the limits, unchanged; the others are counted in `report`."""
    for pair in pairs:
        report.num_read += 1
        if reason := pair.dropped or _reason_to_drop(pair, limits):
            report.drop(reason, pair)
            continue
        if pair.source == pair.target:
            if limits.drop_copies:
                report.drop(DropReason.COPY, pair)
                continue
            report.notes[_COPIES] += 1
        yield pair


def require_rereadable(files: Iterable[Path]) -> None:
    """Check that all files exist and can be read twice: once to learn sub-words, once to encode.

    Raises:
        UsageError: A file is a pipe or stdin.
        DataError: Files are missing or are directories; the error names all of them.
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


def _read_two_files(source: Path, target: Path, report: CleaningReport, bad: BadLines) -> Iterator[Pair]:
    source_lines = bad.lines(source, counts_of(source, report))
    target_lines = bad.lines(target, counts_of(target, report))
    number = 0
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines), start=1):
        if source_line is None or target_line is None:
            raise different_length(source, target, bad.max_bytes)
        if isinstance(source_line, str) and isinstance(target_line, str):
            yield Pair(source_line, target_line, number, str(source))
        else:
            faults = [line for line in (source_line, target_line) if isinstance(line, DataError)]
            bad.drop(faults[0], number)
            yield Pair("", "", number, str(source), DropReason.BAD_LINE)
    if number == 0:
        raise DataError([empty_message(source), empty_message(target)])
    bad.end(number)


def counts_of(file: Path, report: CleaningReport) -> LineCounts:
    """Counts for reading `file`, added to the report."""
    report.files[str(file)] = LineCounts()
    return report.files[str(file)]


def _reason_to_drop(pair: Pair, limits: CleaningLimits) -> DropReason | None:
    if is_blank(pair.source):
        return DropReason.EMPTY_SOURCE
    if is_blank(pair.target):
        return DropReason.EMPTY_TARGET
    shorter, longer = len(pair.source), len(pair.target)
    if shorter > longer:
        shorter, longer = longer, shorter
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
