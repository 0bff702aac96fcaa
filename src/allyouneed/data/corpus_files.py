"""Sentence pairs in files, whatever their format: to add one, write its reader and name it in `FORMATS`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

from allyouneed.data.corpus import (
    CleaningLimits,
    CleaningReport,
    Pair,
    read_parallel,
    read_tab_separated,
    require_rereadable,
)

Files = str | Path | Sequence[str | Path]
"""One file, or several that are read one after the other."""

FORMATS: Mapping[str, Callable[[Path, CleaningReport], Iterator[Pair]]] = {".tsv": read_tab_separated}
"""Suffix of a file of pairs, in front of `.gz` or `.zst` -> its reader; files without one are tab-separated.

A reader gives the pairs of a file with their line numbers, and counts in the report what it has read.
"""


@dataclass(frozen=True)
class CorpusFiles:
    """Where sentence pairs come from: parallel files, files of pairs, or both."""

    sources: Files = ()
    """Text in the source language, one sentence a line."""
    targets: Files = ()
    """Its translation, line by line: as many files, in the same order."""
    pairs: Files = ()
    """Files of pairs, by their suffix in one of `FORMATS`; lines of source TAB target if in none."""

    limits: ClassVar[CleaningLimits] = CleaningLimits()
    """What pairs may be before they are tokenised."""

    def __bool__(self) -> bool:
        return bool(self.sources or self.targets or self.pairs)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All pairs, the parallel files' first; that all files are there is checked at the call."""
        parallel = read_parallel(paths(self.sources), paths(self.targets), report)
        files = paths(self.pairs)
        require_rereadable(files)
        return chain(parallel, *(_format_of(file)(file, report) for file in files))

    def distinct(self) -> "CorpusFiles":
        """The files themselves: nothing is repeated."""
        return self


def paths(files: Files) -> list[Path]:
    """The paths of one file or several."""
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def read_pairs(file: Path) -> tuple[list[str], list[str]]:
    """The sources and the targets of a file of lines `source TAB target`, such as a test set.

    Raises:
        DataError: The file is missing or empty, or a line has no tab, is not UTF-8 or has a NUL.
    """
    pairs = list(_format_of(file)(file, CleaningReport()))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _format_of(file: Path) -> Callable[[Path, CleaningReport], Iterator[Pair]]:
    suffixes = [suffix for suffix in file.suffixes if suffix not in (".gz", ".zst")]
    return FORMATS.get(suffixes[-1] if suffixes else "", read_tab_separated)
