"""Held-out text that a command translates and scores: two line-aligned files, or one file of pairs."""

from collections.abc import Sequence
from pathlib import Path

from allyouneed.data.lines import read_aligned
from allyouneed.errors import UsageError, notice


def read_held_out(
    source: Path | None, references: Sequence[Path] | None, pairs: Path | None, model: Path
) -> tuple[list[str], ...]:
    """The sources, and one or more lists of references.

    Raises:
        UsageError: Neither two files nor a file of pairs is given, or see `read_pairs_for`.
        DataError: A file cannot be read, or the files have different numbers of lines.
    """
    if pairs is not None and source is None and references is None:
        return read_pairs_for(model, pairs)
    if pairs is not None or source is None or references is None:
        raise UsageError(
            "give --source and --reference, two line-aligned files, or --pairs, one file of both"
        )
    return tuple(read_aligned(source, *references))


def read_pairs_for(model: Path, pairs: Path) -> tuple[list[str], list[str]]:
    """The sources and targets of a file of pairs; those of a translation memory in the model's languages.

    A notice counts the units without one of the languages, which are dropped.

    Raises:
        UsageError: It is a translation memory, and the model does not record its languages.
        DataError: The file cannot be read.
    """
    from allyouneed.data.corpus import CleaningReport
    from allyouneed.data.corpus_files import read_pairs
    from allyouneed.data.tmx import is_xml

    if not is_xml(pairs):
        return read_pairs(pairs)
    from allyouneed.runs.loading import config_of

    data = config_of(model).data
    if not (data.source_language and data.target_language):
        raise UsageError(
            f"{pairs}: is a translation memory, and {model} does not record its languages; give two "
            "line-aligned files instead"
        )
    languages, report = (data.source_language, data.target_language), CleaningReport()
    sources, targets = read_pairs(pairs, *languages, report)
    if report.num_dropped:
        dropped, lacking = report.num_dropped, " or ".join(languages)
        notice(f"{pairs}: dropped {dropped:,} of {dropped + len(sources):,} units, which lack {lacking}")
    return sources, targets
