"""The results of an experiment as a table of texts: figures, verdicts, cost and remarks."""

import math
import re
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allyouneed.errors import printable
from allyouneed.lab.paper.experiment import (
    AVERAGED,
    DATE,
    FAILED,
    PROCESSOR,
    RATES,
    RESULT,
    Figures,
    Results,
    Row,
)
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.statistics.figure_tests import TESTS, find_test
from allyouneed.lab.statistics.verdicts import (
    Judgement,
    Scores,
    Verdict,
    are_sentences_drawn,
    control,
    deviation,
    judge,
    scores_of,
    verdict_on,
)

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
class ResultLine:
    """A computed row."""

    name: str
    what: str
    num_seeds: int
    cells: Sequence[Cell]
    """One per column."""
    costs: Sequence[str]
    """One for each of `COSTS`, over all seeds; empty texts for unknown ones."""
    processor: str = ""
    """Machines and precision that the seeds were computed with."""
    dates: str = ""
    """The day, or the first and the last day, on which they were computed."""


@dataclass(frozen=True)
class ResultsTable:
    """Everything that a report of an experiment says in words and numbers."""

    experiment: str
    title: str
    facts: Sequence[str]
    """Scale, hours, devices and date."""
    columns: Sequence[Column]
    lines: Sequence[ResultLine]
    conclusions: Mapping[str, Sequence[str]]
    """Title -> differences, or reasons of failure."""
    remarks: Sequence[str]
    """Settings, notes and the rule of comparison; names of settings and rows are in backticks."""
    verdict: str = ""
    """The results in a sentence."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "ResultsTable":
        """The table whose fields, as JSON values, these are."""
        lines = [
            ResultLine(**{**line, "cells": [Cell(**cell) for cell in line["cells"]]})
            for line in values["lines"]
        ]
        columns = [Column(**column) for column in values["columns"]]
        return cls(**{**values, "columns": columns, "lines": lines})

    @property
    def costs(self) -> list[str]:
        """The costs that at least one row has."""
        return [name for place, name in enumerate(COSTS) if any(line.costs[place] for line in self.lines)]

    def costs_of(self, line: ResultLine) -> list[tuple[str, str]]:
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
        ResultLine(
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
        [
            Column(figure.title, figure.meaning, name in in_paper)
            for name, figure in results.experiment.figures.items()
            if name in figures
        ],
        lines,
        _conclusions(results, judgements),
        [*_trained(results), *_rates(results), *_notes(results), *_rule(results, scores)],
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
    """The costs of `COSTS`, summed over seeds; no energy if a seed has none, no formula if it is a figure."""
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


def _facts(results: Results, lines: Sequence[ResultLine]) -> Iterator[str]:
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


def _conclusions(results: Results, judgements: Sequence[Judgement]) -> dict[str, list[str]]:
    """Lists of differences by verdict; then failed rows."""
    found: dict[str, list[str]] = {title: [] for _, title in VERDICTS.values()}
    named = {row.name for row in results.rows if row.baselines}
    failed = {row.name: _failed(results, row) for row in results.rows if row.name in results.outcomes}
    for judgement in judgements:
        title = VERDICTS[judgement.verdict][1]
        difference = _difference(results, judgement, name_baseline=judgement.row in named)
        found[title].append(difference + failed[judgement.row])
    found["Failed"] = [
        f"{why}; to continue it, delete {folder / RESULT}, to restart it, delete all of that folder"
        for folder, why in results.failures().items()
    ]
    return {title: items for title, items in found.items() if items}


def _difference(results: Results, judgement: Judgement, *, name_baseline: bool) -> str:
    beside = f" beside {judgement.baseline}" if name_baseline else ""
    paper = "" if judgement.paper is None else f", paper {judgement.paper:+.2f}"
    test = find_test(judgement.figure)
    margin = f"{judgement.shown.split()[0]} {test.margin_in_words}, " if test else ""
    of_margin = "" if judgement.shown == "different" else margin
    p_value = "" if judgement.p_value is None else f" ({of_margin}p = {judgement.p_value:.2g})"
    title = results.experiment.figures[judgement.figure].title
    return f"{judgement.row}, {title} {judgement.difference:+.2f}{beside}{p_value}{paper}"


# Settings, notes, and how rows are compared


def _trained(results: Results) -> Iterator[str]:
    """Remarks on the models: the given one, or the settings of the trained ones."""
    if results.inputs.model is not None:
        yield f"Model: {printable(str(results.inputs.model))}."
        return
    is_trained = results.inputs.data or any(results.values(row.name, "seconds") for row in results.rows)
    if not is_trained and results.experiment.settings is Scale.changes:
        return  # the scale's settings are those of training
    settings = results.experiment.settings(results.scale)
    scaled = f"Scale {results.scale.name}, sized for {results.scale.sized_for}."
    yield scaled + (f" Settings: {'; '.join(settings)}." if settings else "")
    flags = " and ".join(f"`--{name.replace('_', '-')}`" for name in results.experiment.test_settings)
    if results.tested:
        yield "Scored on a test set; nothing was chosen by it."
    elif flags:
        verb = "give" if len(results.experiment.test_settings) > 1 else "gives"
        yield f"Scored on the validation text; the paper's figures are on test text, which {flags} {verb}."
    elif TESTS.keys() & results.experiment.figures.keys():
        yield "Scored on the validation text."


def _rates(results: Results) -> Iterator[str]:
    """The learning rate that was best for each row and seed, if several were tried."""
    found = []
    for row in results.rows:
        outcomes = [outcome for _, outcome in sorted(results.outcomes.get(row.name, {}).items())]
        tried = [float(rate) for outcome in outcomes for rate in outcome.get(RATES, {})]
        if best := [outcome["rate"] for outcome in outcomes if RATES in outcome]:
            at_edge = not {min(tried), max(tried)}.isdisjoint(best)
            edge = " (one beyond those tried may be better)" if at_edge and len({*tried}) > 1 else ""
            found.append(f"`{row.name}` {', '.join(f'{rate:g}' for rate in best)}{edge}")
    if found:
        yield f"Best learning rates, one for each seed: {'; '.join(found)}."


def _notes(results: Results) -> Iterator[str]:
    """The experiment's notes; one on a row, the first that it names, only if that has been computed."""
    rows = {row.name for row in results.rows}
    for note in results.experiment.notes:
        named = [name for name in re.findall("`([^`]+)`", note) if name in rows]
        if not named or named[0] in results.outcomes:
            yield note


def _rule(results: Results, scores: Scores) -> Iterator[str]:
    """The rule of comparison, and the control of the test."""
    if not scores:
        return
    figures = results.experiment.figures
    on_seeds = [figures[name].title for name in scores if not are_sentences_drawn(name, scores)]
    alone = f", except for {'; '.join(on_seeds)}" if on_seeds else ""
    drawn = "" if len(on_seeds) == len(scores) else f", and test sentences with replacement{alone}"
    yield (
        "A row is tested against its baseline over the seeds that both have, if these are two or more. "
        "What a seed does to all rows is taken out. The residual standard deviation is pooled over rows; a "
        "row with a larger one keeps its own. Differences that seeds make are drawn from Student's t "
        f"distribution{drawn}. p-values have Holm's correction over all rows, for each figure and kind of "
        "test by itself; p < 0.05 is significant."
    )
    in_paper = {name for row in results.rows for name in row.paper}
    yield from _deviations(results, scores, in_paper)
    of_paper = [test for name in scores if name in in_paper and (test := find_test(name))]
    if margins := dict.fromkeys(test.margin_in_words for test in of_paper):
        yield (
            f"Where the paper's rows differ by less than {' or '.join(margins)}, ours agree with it if they "
            "are shown to do so, too (two one-sided tests). Where the paper's are equal, up to one unit in "
            "the last printed digit, ours disagree if they are shown to differ by more."
        )
    different, splits = control(scores)
    if splits:
        yield (
            f"Control: over all rows and figures, the seeds of a row were split into halves in {splits} "
            "ways, and judged by the deviation of the other rows; "
            f"{different} ({different / splits:.1%}) were called different. 5% are expected."
        )


def _deviations(results: Results, scores: Scores, in_paper: Collection[str]) -> Iterator[str]:
    """Standard deviations over seeds, except for parts of the test set."""
    figures = results.experiment.figures
    found = [
        f"{figures[name].title}, {test.deviation_in_words(tests.deviation)} ({tests.degrees_of_freedom})"
        for name, tests in scores.items()
        if name in in_paper or name.removesuffix(AVERAGED) in TESTS
        if (test := find_test(name)) and tests.deviation is not None
    ]
    if found:
        yield f"Standard deviation over seeds, with its degrees of freedom: {'; '.join(found)}."
