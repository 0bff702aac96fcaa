"""Held-out text that a command translates and scores: two line-aligned files, or one file of pairs."""

from collections.abc import Sequence
from pathlib import Path

from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError


def read_held_out(
    source: Path | None, references: Sequence[Path] | None, pairs: Path | None
) -> tuple[list[str], ...]:
    """The sources, and one or more lists of references.

    Raises:
        UsageError: Neither two files nor a file of pairs is given.
        DataError: A file cannot be read, or the files have different numbers of lines.
    """
    if pairs is not None and source is None and references is None:
        from allyouneed.data.corpus_files import read_pairs

        return read_pairs(pairs)
    if pairs is not None or source is None or references is None:
        raise UsageError(
            "give --source and --reference, two line-aligned files, or --pairs, one file of both"
        )
    return tuple(read_aligned(source, *references))
