"""Sentence pairs in files of any format. To add a format, write its reader and list it in `FORMATS`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from allyouneed.data.corpus import (
    CleaningLimits,
    CleaningReport,
    Pair,
    read_parallel,
    read_tab_separated,
    require_rereadable,
)

Files = str | Path | Sequence[str | Path]
"""One file, or several, read in order."""


class Format(Protocol):
    """A reader of files of pairs."""

    def __call__(
        self, file: Path, report: CleaningReport, *, max_bad_share: float | None = None
    ) -> Iterator[Pair]:
        """The pairs of a file."""


FORMATS: Mapping[str, Format] = {".tsv": read_tab_separated}
"""Suffix of a file of pairs, before any `.gz` or `.zst` -> its reader; other files are tab-separated.

A reader yields the pairs of a file with their line numbers, and adds what it has read to the report. Unusable
lines are an error or, with `max_bad_share`, an `UnusablePair` each (see `read_parallel`).
"""


@dataclass(frozen=True)
class CorpusFiles:
    """Files of sentence pairs: parallel files, files of pairs, or both."""

    sources: Files = ()
    """Files in the source language, one sentence per line."""
    targets: Files = ()
    """Files with the translation of each line: one for each source file, in the same order."""
    pairs: Files = ()
    """Files of pairs, in the format of `FORMATS` that the suffix names, by default `source TAB target`."""

    _: KW_ONLY
    max_bad_share: float | None = None
    """Share of a file's lines, from 0 to 1, up to which those are dropped that cannot be used: not UTF-8,
    with a NUL, or without a tab. None: the first one is an error."""

    drop_copies: bool = False
    """Whether pairs of equal sides are dropped; they are counted in any case."""

    @property
    def limits(self) -> CleaningLimits:
        """Limits on pairs before tokenisation."""
        return CleaningLimits(drop_copies=self.drop_copies)

    def __bool__(self) -> bool:
        return bool(self.sources or self.targets or self.pairs)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All pairs, those of parallel files first; the call checks that all files exist."""
        share = self.max_bad_share
        parallel = read_parallel(paths(self.sources), paths(self.targets), report, max_bad_share=share)
        files = paths(self.pairs)
        require_rereadable(files)
        return chain(parallel, *(_format_of(file)(file, report, max_bad_share=share) for file in files))

    @property
    def all_files(self) -> list[Path]:
        """All files that are read."""
        return [file for files in (self.sources, self.targets, self.pairs) for file in paths(files)]

    def distinct(self) -> "CorpusFiles":
        """This object itself: sentence pairs are not repeated."""
        return self


def paths(files: Files) -> list[Path]:
    """The paths of one file or several."""
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def read_pairs(file: Path) -> tuple[list[str], list[str]]:
    """The sources and targets of a file of pairs, such as a test set.

    Raises:
        DataError: The file is missing or empty, or a line has no tab, is not UTF-8 or contains a NUL.
    """
    pairs = list(_format_of(file)(file, CleaningReport()))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _format_of(file: Path) -> Format:
    suffixes = [suffix for suffix in file.suffixes if suffix not in (".gz", ".zst")]
    return FORMATS.get(suffixes[-1] if suffixes else "", read_tab_separated)
