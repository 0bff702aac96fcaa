"""Sentence pairs in files of any format. To add a format, write its reader and list it in `FORMATS`."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, compress
from pathlib import Path
from typing import Protocol

from allyouneed.data.corpus import CleaningLimits, CleaningReport, Pair, read_parallel, require_rereadable
from allyouneed.data.directed_pairs import ReadingOrder, tempered_weights
from allyouneed.data.languages import LanguageFilter
from allyouneed.data.tab_separated import FIRST_TWO, Columns, read_tab_separated
from allyouneed.data.tmx import is_xml, read_tmx
from allyouneed.errors import DataError, UsageError
from allyouneed.language_codes import Direction

MOST_WEIGHT = 1_000
"""Maximum number of copies of a pair."""

Files = str | Path | Sequence[str | Path]
"""One file, or several, read in order."""


class PairReader(Protocol):
    """A reader of files of pairs."""

    def __call__(self, file: Path, report: CleaningReport, files: "CorpusFiles", /) -> Iterator[Pair]:
        """The pairs of a file, which is one of `files`.

        It yields them with their line numbers, and adds what it has read to the report. Unusable lines are an
        error or, with `max_bad_share`, a dropped pair each (see `read_parallel`).
        """


@dataclass(frozen=True)
class CorpusFiles:
    """Files of sentence pairs: parallel files, files of pairs, or both."""

    sources: Files = ()
    """Files in the source language, one sentence per line."""
    targets: Files = ()
    """Files with the translation of each line: one for each source file, in the same order."""
    pairs: Files = ()
    """Files of pairs, each in one of the `FORMATS`: TMX, or lines of `source TAB target`."""

    _: KW_ONLY
    max_bad_share: float | None = None
    """Share of a file's lines, from 0 to 1, up to which those are dropped that cannot be used: not UTF-8,
    with a NUL, or without a tab. None: the first one is an error."""

    max_bytes: int | None = None
    """Most bytes of text in a file; more, as a small compressed file may have, are an error."""

    drop_copies: bool = False
    """Whether pairs of equal sides are dropped; they are counted in any case."""

    columns: Columns = FIRST_TWO
    """Columns of tab-separated files, and the scores that are too low."""

    source_language: str | None = None
    """Code of the source language, for files with texts in several: TMX."""

    target_language: str | None = None
    """Code of the target language, for the same files."""

    readings: Sequence[ReadingOrder] = ()
    """The direction of each file of pairs, for a model of several; there are then no parallel files."""

    languages: tuple[str, str] | None = None
    """Codes of the languages that training pairs must have; others are dropped. Needs py3langid."""

    drop_repeats: bool = True
    """Whether training pairs that have come before are dropped. Validation text is kept as it is."""

    sides_are_alike: bool = True
    """Whether sources are texts, whose lengths tell something; paths of files of frames are none."""

    weights: Sequence[float] = ()
    """How often each pair is wanted, for each source file and then each file of pairs; by default once. 2.5
    stands for two copies, and a third of every second pair, drawn by its place."""

    @property
    def limits(self) -> CleaningLimits:
        """Limits on pairs before tokenisation."""
        limits = CleaningLimits(
            drop_copies=self.drop_copies, drop_repeats=self.drop_repeats, languages=self.languages
        )
        return limits if self.sides_are_alike else replace(limits, max_length_ratio=math.inf)

    def require_usable(self) -> None:
        """Check the weights, and that the languages can be detected.

        Raises:
            UsageError: There is not one weight for each corpus, a file has two, or one is not a number from 0
                to 1,000; or a language is not known, or its detector is not installed.
            DataError: All weights are 0.
        """
        if self.readings:
            self._require_directions()
        if self.weights and len(self._weighted) != len(self.weights):
            raise UsageError(
                f"weights: {len(self.weights)} for {len(self._weighted)} corpora; give one for each source "
                "file and then each file of pairs",
                settings=["weights"],
            )
        weights = self.weights_by_file()
        for file, weight in zip(self._weighted, self.weights, strict=False):
            name = file[0]
            if not 0 <= weight <= MOST_WEIGHT:
                raise UsageError(f"{name}: weight {weight:g}; give a number from 0 to {MOST_WEIGHT:,}")
            if weight != weights[file]:
                raise UsageError(
                    f"{name}: is given twice, with the weights {weight:g} and {weights[file]:g}; give it one "
                    "weight, or another name by a link (ln -s)"
                )
        if self.weights and not any(self.weights):
            raise DataError("weights: all are 0, so no pair is left; raise one", settings=["weights"])
        for code in self.languages or ():
            LanguageFilter(code)

    def _require_directions(self) -> None:
        if self.sources or self.targets:
            raise UsageError(
                "source, target: have no direction, but the files of pairs have; make files of pairs of them "
                "(paste train.en train.de > en-de.tsv)",
                settings=["source", "target"],
            )
        if self.languages and len(self.directions) > 1:
            raise UsageError(
                "languages: is for one direction, but there are several; leave it out", settings=["languages"]
            )
        first: dict[Path, ReadingOrder] = {}
        for file, reading in zip(paths(self.pairs), self.readings, strict=True):
            if (
                not reading.is_swapped
                and first.setdefault(file, reading) != reading
                and is_tab_separated(file)
            ):
                raise UsageError(
                    f"{file}: is named twice, but its first column is in one language; name it once, and "
                    "read it both ways by both_directions",
                    settings=["both_directions"],
                )

    @property
    def directions(self) -> Sequence[Direction]:
        """Directions that the files of pairs are named after, each once."""
        return [*dict.fromkeys(reading.direction for reading in self.readings)]

    def tempered(self, temperature: float) -> "CorpusFiles":
        """The files, with weights by which small directions are seen more often; see `tempered_weights`.

        It reads all files, to count their pairs.
        """
        sizes = Counter(pair.direction for pair in self.read(CleaningReport()) if not pair.dropped)
        weights = tempered_weights(sizes, temperature, MOST_WEIGHT)
        return replace(self, weights=[weights.get(each.direction, 1.0) for each in self.readings])

    def weights_by_file(self) -> Mapping[tuple[str, Direction | None], float]:
        """Source file or file of pairs, and its direction -> how often each of its pairs is wanted."""
        return dict(zip(self._weighted, map(float, self.weights), strict=False))

    @property
    def _weighted(self) -> list[tuple[str, Direction | None]]:
        files = [*paths(self.sources), *paths(self.pairs)]
        directions: list[Direction | None] = [each.direction for each in self.readings]
        directions = directions or [None] * len(files)
        return [(str(file), direction) for file, direction in zip(files, directions, strict=True)]

    def __bool__(self) -> bool:
        return bool(self.sources or self.targets or self.pairs)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All pairs, those of parallel files first; the call checks that all files exist."""
        parallel = read_parallel(
            paths(self.sources),
            paths(self.targets),
            report,
            max_bad_share=self.max_bad_share,
            max_bytes=self.max_bytes,
        )
        files = paths(self.pairs)
        require_rereadable(files)
        if self.readings:
            directed = zip(files, self.readings, strict=True)
            return chain.from_iterable(self._read_directed(*each, report) for each in directed)
        return chain(parallel, *(_format_of(file)(file, report, self) for file in files))

    def _read_directed(self, file: Path, reading: ReadingOrder, report: CleaningReport) -> Iterator[Pair]:
        columns, (source, target, is_swapped) = self.columns, reading
        if is_swapped:
            columns = replace(columns, source=columns.target, target=columns.source)
        files = replace(self, columns=columns, source_language=source, target_language=target)
        for pair in _format_of(file)(file, report, files):
            yield pair._replace(direction=reading.direction)

    @property
    def all_files(self) -> list[Path]:
        """All files that are read."""
        return [file for files in (self.sources, self.targets, self.pairs) for file in paths(files)]

    def distinct(self) -> "CorpusFiles":
        """The files with weights above 0: others leave no text, and sentence pairs are not repeated."""
        if 0 not in self.weights:
            return self
        num_sources = len(paths(self.sources))
        of_sources, of_pairs = self.weights[:num_sources], self.weights[num_sources:]
        return replace(
            self,
            sources=[*compress(paths(self.sources), of_sources)],
            targets=[*compress(paths(self.targets), of_sources)],
            pairs=[*compress(paths(self.pairs), of_pairs)],
            readings=[*compress(self.readings, of_pairs)],
            weights=[weight for weight in self.weights if weight],
        )


def paths(files: Files) -> list[Path]:
    """The paths of one file or several."""
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def read_pairs(
    file: Path,
    source_language: str | None = None,
    target_language: str | None = None,
    report: CleaningReport | None = None,
) -> tuple[list[str], list[str]]:
    """The sources and targets of a file of pairs, such as a test set, in one of the `FORMATS`.

    A TMX needs the codes of the languages; `report` counts its dropped units.

    Raises:
        UsageError: The file is a TMX, and a language is not given.
        DataError: The file is missing or empty, or a line has no tab, is not UTF-8 or contains a NUL.
    """
    files = CorpusFiles(pairs=file, source_language=source_language, target_language=target_language)
    report, pairs = CleaningReport() if report is None else report, list[Pair]()
    for pair in _format_of(file)(file, report, files):
        if pair.dropped:
            report.drop(pair.dropped, pair)
        else:
            pairs.append(pair)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _read_tab_separated(file: Path, report: CleaningReport, files: CorpusFiles) -> Iterator[Pair]:
    share, most = files.max_bad_share, files.max_bytes
    return read_tab_separated(file, report, max_bad_share=share, max_bytes=most, columns=files.columns)


def _read_tmx(file: Path, report: CleaningReport, files: CorpusFiles) -> Iterator[Pair]:
    languages = files.source_language, files.target_language
    return read_tmx(file, report, languages, max_bytes=files.max_bytes)


FORMATS: Sequence[tuple[Callable[[Path], bool], PairReader]] = (
    (is_xml, _read_tmx),
    (lambda file: True, _read_tab_separated),
)
"""For each format, a test of the content of a file, and a reader; the first whose test passes counts."""


def is_tab_separated(file: Path) -> bool:
    """Whether no other format recognises a file of pairs."""
    return _format_of(file) is _read_tab_separated


def _format_of(file: Path) -> PairReader:
    return next(read for recognises, read in FORMATS if recognises(file))
