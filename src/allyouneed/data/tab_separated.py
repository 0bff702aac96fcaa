"""Reads sentence pairs from tab-separated files, also those of programs that score pairs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from allyouneed.data.bad_lines import BadLines, empty_message
from allyouneed.data.corpus import CleaningReport, DropReason, Pair, counts_of
from allyouneed.data.lines import likewise, read_each_line
from allyouneed.errors import DataError


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a tab-separated file, numbered from 1."""

    source: int = 1
    """The column of the source text."""
    target: int = 2
    """The column of the target text."""
    score: int | None = None
    """The column of a score that another program gave the pair."""
    min_score: float = -math.inf
    """The lowest score that is not dropped."""

    @property
    def num_needed(self) -> int:
        """The number of columns that a line must have."""
        return max(self.source, self.target, self.score or 0)


FIRST_TWO = Columns()
"""Source and target, and nothing else."""
_MORE_COLUMNS = "lines have columns after the second; these are ignored"


def read_tab_separated(
    file: Path,
    report: CleaningReport,
    *,
    max_bad_share: float | None = None,
    max_bytes: int | None = None,
    columns: Columns = FIRST_TWO,
) -> Iterator[Pair]:
    """Read pairs from lines of `source TAB target`, or from other columns.

    Other columns are ignored, and counted in the report unless columns were chosen.

    Raises:
        DataError: The file is empty, or longer than `max_bytes`, or a line lacks a column, is not UTF-8 or
            contains a NUL, or its score is not a number.
    """
    bad = BadLines(max_bad_share, max_bytes)
    rows = enumerate(
        (
            line if isinstance(line, DataError) else _cells(line, columns)
            for line in bad.lines(file, counts_of(file, report))
        ),
        1,
    )
    number = 0
    for number, cells in rows:
        if isinstance(cells, DataError) or (fault := _fault(cells, columns)):
            error = cells if isinstance(cells, DataError) else DataError(f"{file}:{number}: {fault}")
            if max_bad_share is None:
                alike = (
                    later for later, others in rows if isinstance(others, list) and _fault(others, columns)
                )
                raise DataError(error.messages[0] + likewise(alike))
            bad.drop(error, number)
            yield Pair("", "", number, str(file), DropReason.BAD_LINE)
        elif columns.score and not float(cells[columns.score - 1]) >= columns.min_score:
            yield Pair("", "", number, str(file), DropReason.LOW_SCORE)
        else:
            if len(cells) > 2 and columns == FIRST_TWO:
                report.notes[_MORE_COLUMNS] += 1
            yield Pair(cells[columns.source - 1], cells[columns.target - 1], number, str(file))
    if number == 0:
        raise DataError(empty_message(file))
    bad.end(number)


def read_each_pair(file: Path) -> Iterator[tuple[str, str] | DataError]:
    """The source and target of every line of `source TAB target`, or the error of an unusable line."""
    for line in read_each_line(file):
        cells = _cells(line.text, FIRST_TWO)
        if line.error or (fault := _fault(cells, FIRST_TWO)):
            yield line.error or DataError(f"{file}:{line.number}: {fault}")
        else:
            yield cells[0], cells[1]


def _cells(line: str, columns: Columns) -> list[str]:
    """The cells of a line; those after the last that is needed are one."""
    return line.split("\t", columns.num_needed)


def _fault(cells: list[str], columns: Columns) -> str:
    """The fault of a line and its remedy, or nothing."""
    if len(cells) < columns.num_needed:
        if columns == FIRST_TWO:
            return "no tab; write source TAB target on each line"
        return f"has {len(cells)} columns, {columns.num_needed} are needed; check the numbers of the columns"
    if columns.score:
        score = cells[columns.score - 1]
        try:
            float(score)
        except ValueError:
            return f"column {columns.score} is {score[:20]!r}, not a score; name another column"
    return ""
