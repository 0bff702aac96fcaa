"""The results of an experiment as a table of texts: figures, verdicts, cost and remarks."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from allyouneed.lab.paper.experiment import DATE, FAILED, PROCESSOR, RATES, RESULT, Figures, Results, Row
from allyouneed.lab.paper.pages.figure_legend import figure_explanation, figure_title
from allyouneed.lab.paper.pages.results_remarks import remarks
from allyouneed.lab.statistics.figure_tests import find_test
from allyouneed.lab.statistics.verdicts import Judgement, Verdict, deviation, judge, scores_of, verdict_on

_GROUPED_FROM, _BY_POWERS_FROM, _MOST_DECIMALS = 1e4, 1e9, 6
VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "as the paper": ("✓", "As the paper"),
    "not as the paper": ("✗", "Not as the paper"),
    "differs": ("≠", "Differs, where the paper has no figure"),
    "not told apart": ("~", "Not told apart"),
    "not tested": (
        "·",
        "Not tested (fewer than two seeds in common, no deviation, or a figure that is not finite)",
    ),
}
"""Verdict -> its mark in tables, and the title of its list of conclusions."""
COSTS = ("hours", "FLOPs", "by formula", "kWh")


@dataclass(frozen=True)
class Column:
    """A figure."""

    title: str
    explanation: str
    in_paper: bool
    """Whether the paper prints it for any row."""


@dataclass(frozen=True)
class Cell:
    """A figure of a row."""

    ours: str
    paper: str
    verdicts: Sequence[Verdict]
    """One for each row that it is compared with."""

    @property
    def marked(self) -> str:
        """Our figure, with the marks of the verdicts."""
        return " ".join([self.ours, *(VERDICTS[verdict][0] for verdict in self.verdicts)]).strip()


@dataclass(frozen=True)
class Line:
    """A computed row."""

    name: str
    what: str
    num_seeds: int
    cells: Sequence[Cell]
    """One per column."""
    costs: Sequence[str]
    """One for each of `COSTS`, over all seeds; empty texts for unknown ones."""
    processor: str = ""
    """Machines and precision that the seeds were computed with; empty if unknown, as in earlier versions."""
    dates: str = ""
    """The day, or the first and the last day, on which they were computed; empty if unknown."""


@dataclass(frozen=True)
class ResultsTable:
    """Everything that a report of an experiment says in words and numbers."""

    experiment: str
    title: str
    facts: Sequence[str]
    """Scale, hours, devices and date."""
    columns: Sequence[Column]
    lines: Sequence[Line]
    conclusions: Mapping[str, Sequence[str]]
    """Title -> differences, or reasons of failure."""
    remarks: Sequence[str]
    """Settings, notes and the rule of comparison; names of settings and rows are in backticks."""
    verdict: str = ""
    """What the results say, in a sentence; empty in pages of earlier versions."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ResultsTable":
        """The table whose fields, as JSON values, these are."""
        lines = [
            Line(**{**line, "cells": [Cell(**cell) for cell in line["cells"]]}) for line in values["lines"]
        ]
        columns = [Column(**column) for column in values["columns"]]
        return cls(**{**values, "columns": columns, "lines": lines})

    @property
    def costs(self) -> list[str]:
        """The costs that at least one row has."""
        return [name for place, name in enumerate(COSTS) if any(line.costs[place] for line in self.lines)]

    def costs_of(self, line: Line) -> list[tuple[str, str]]:
        """The costs of a row, by their titles."""
        return [(name, cost) for name, cost in zip(COSTS, line.costs, strict=True) if name in self.costs]

    @property
    def marks(self) -> dict[str, str]:
        """The marks that occur -> their meanings."""
        used = {verdict for line in self.lines for cell in line.cells for verdict in cell.verdicts}
        return {mark: title for verdict, (mark, title) in VERDICTS.items() if verdict in used}


def results_table(results: Results) -> ResultsTable:
    """The table of all rows computed so far."""
    rows = [row for row in results.rows if row.name in results.outcomes]
    figures = [f for f in results.experiment.figures if any(results.values(row.name, f) for row in rows)]
    in_paper = {figure for row in results.rows for figure in row.paper}
    scores = scores_of(results)
    judgements = judge(results, scores)
    verdicts: dict[tuple[str, str], list[Verdict]] = {}
    for found in judgements:
        verdicts.setdefault((found.row, found.figure), []).append(found.verdict)
    lines = [
        Line(
            row.name,
            row.what + _failed(results, row),
            sum(FAILED not in outcome for outcome in results.outcomes[row.name].values()),
            [
                Cell(
                    _mean(results.values(row.name, figure)),
                    f"{row.paper[figure]:g}".replace("inf", "∞") if figure in row.paper else "",
                    verdicts.get((row.name, figure), []),
                )
                for figure in figures
            ],
            _costs(results, row),
            _processor(results.outcomes[row.name].values()),
            _dates(results.outcomes[row.name].values()),
        )
        for row in rows
    ]
    return ResultsTable(
        results.experiment.name,
        results.experiment.title,
        list(_facts(results, lines)),
        [Column(figure_title(figure), figure_explanation(figure), figure in in_paper) for figure in figures],
        lines,
        _conclusions(results, judgements),
        list(remarks(results, scores)),
        verdict_on(results, judgements),
    )


def _failed(results: Results, row: Row) -> str:
    """A remark on the seeds that failed; empty if none did."""
    outcomes = results.outcomes[row.name].values()
    failed = sum(FAILED in outcome for outcome in outcomes)
    return f" ({FAILED if failed == len(outcomes) else f'{failed} {FAILED}'})" if failed else ""


def _mean(values: list[float]) -> str:
    """The mean to four digits; with a deviation, both to the second digit of the deviation."""
    if not values:
        return ""
    mean, spread = statistics.fmean(values), deviation(values)
    if not spread or abs(mean) >= _BY_POWERS_FROM:
        return _number(mean) + (f" ± {_number(spread)}" if spread else "")
    decimals = min(max(0, 1 - math.floor(math.log10(spread))), _MOST_DECIMALS)
    return f"{mean:,.{decimals}f} ± {spread:,.{decimals}f}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    rounded = abs(float(f"{value:.4g}"))
    return f"{value:{'.1e' if rounded >= _BY_POWERS_FROM else ',.0f' if rounded >= _GROUPED_FROM else '.4g'}}"


def _costs(results: Results, row: Row) -> list[str]:
    """Hours, FLOPs, FLOPs by formula (unless already a figure), and energy of a row, summed over seeds.

    Energy is left out if a seed was computed on a machine that does not measure it.
    """
    names = ("seconds", "matmul_flops", "formula_flops", "energy_joules")
    values = [results.values(row.name, name) for name in names]
    seconds, counted, formula, joules = map(sum, values)
    if not seconds:
        return [""] * len(names)
    energy = f"{joules / 3.6e6:.3f}" if joules and len(values[-1]) == len(values[0]) else ""
    by_formula = f"{formula:.1e}" if formula and "formula_flops" not in results.experiment.figures else ""
    return [f"{seconds / 3600:.2f}", f"{counted:.1e}", by_formula, energy]


def _processor(outcomes: Iterable[Figures]) -> str:
    """The kinds of machines, each with the precision of training."""
    of_seeds = ((o.get(PROCESSOR) or o.get("device"), o.get("precision")) for o in outcomes)
    return "; ".join(dict.fromkeys(filter(None, (", ".join(filter(None, each)) for each in of_seeds))))


def _dates(outcomes: Iterable[Figures]) -> str:
    days = sorted({outcome[DATE] for outcome in outcomes if outcome.get(DATE)})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _facts(results: Results, lines: Sequence[Line]) -> Iterator[str]:
    yield f"scale {results.scale.name}"
    outcomes = [outcome for of_row in results.outcomes.values() for outcome in of_row.values()]
    if seconds := sum(outcome.get("seconds") or 0 for outcome in outcomes):
        chosen = ", of the chosen rates" if any(RATES in outcome for outcome in outcomes) else ""
        yield f"{seconds / 3600:.1f} hours of training{chosen}"
    rows_of: dict[str, list[str]] = {}
    for line in lines:
        if line.processor:
            rows_of.setdefault(line.processor, []).append(line.name)
    if rows_of:
        alone = len(rows_of) == 1
        yield "; ".join(name if alone else f"{name} ({', '.join(rows)})" for name, rows in rows_of.items())
    if dates := _dates(outcomes):
        yield f"computed {dates}"
    elif times := [file.stat().st_mtime for file in results.directory.glob(f"*/seed-*/{RESULT}")]:
        yield f"computed {datetime.fromtimestamp(max(times), UTC):%Y-%m-%d}"


def _conclusions(results: Results, judgements: Sequence[Judgement]) -> dict[str, list[str]]:
    """Lists of differences by verdict; then failed rows."""
    found: dict[str, list[str]] = {title: [] for _, title in VERDICTS.values()}
    named = {row.name for row in results.rows if row.baselines}
    failed = {row.name: _failed(results, row) for row in results.rows if row.name in results.outcomes}
    for judgement in judgements:
        title = VERDICTS[judgement.verdict][1]
        difference = _difference(judgement, name_baseline=judgement.row in named)
        found[title].append(difference + failed[judgement.row])
    found["Failed"] = [
        f"{why}; to continue it, delete {folder / RESULT}, to restart it, delete all of that folder"
        for folder, why in results.failures().items()
    ]
    return {title: items for title, items in found.items() if items}


def _difference(judgement: Judgement, *, name_baseline: bool) -> str:
    beside = f" beside {judgement.baseline}" if name_baseline else ""
    paper = "" if judgement.paper is None else f", paper {judgement.paper:+.2f}"
    test = find_test(judgement.figure)
    margin = f"{judgement.shown.split()[0]} {test.margin_in_words}, " if test else ""
    of_margin = "" if judgement.shown == "different" else margin
    p_value = "" if judgement.p_value is None else f" ({of_margin}p = {judgement.p_value:.2g})"
    title = figure_title(judgement.figure)
    return f"{judgement.row}, {title} {judgement.difference:+.2f}{beside}{p_value}{paper}"
