"""Judges the rows of an experiment: do the paper's differences hold, or can rows not be told apart?"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from allyouneed.evaluation.significance import SIGNIFICANT
from allyouneed.lab.paper.experiment import AVERAGED, Results, Row
from allyouneed.lab.statistics.figure_tests import (
    DrawnScores,
    FigureTest,
    damaged_counts,
    drawn_scores,
    find_test,
)
from allyouneed.lab.statistics.seeds import SeedComparison, SeedScores, SeedTests, holm

LAST_DIGIT = {"perplexity": 0.01, "bleu": 0.1, "bracket_f1_unconstrained": 0.1}
"""One unit in the last digit that the paper prints of a figure; so small a difference may be rounding."""
Verdict = Literal["as the paper", "not as the paper", "differs", "not told apart", "not tested"]
_DECIDED: Sequence[Verdict] = ("as the paper", "not as the paper", "differs")
Shown = Literal["different", "beyond the margin", "within the margin"]
"""The claim on the difference between two rows that a test is of."""
Scores = Mapping[str, SeedTests]
"""Figure that rows are compared by -> tests of the rows that have it."""


@dataclass(frozen=True)
class Judgement:
    """A figure of a row, compared with that of another row over all seeds."""

    row: str
    baseline: str
    """Name of the other row."""
    figure: str
    difference: float
    """Mean of the row minus mean of the baseline, over the seeds that both have; over all, if they have
    none in common."""
    paper: float | None
    """The paper's difference; None if it has none."""
    p_value: float | None
    """P-value of the test of `shown`, with Holm's correction over all rows. None if the rows have fewer than
    two seeds in common, or if the figures do not vary or are not finite."""
    shown: Shown
    """The claim of the p-value: any difference, or one beyond the margin if the paper's figures are equal;
    one within the margin if the paper's differ by less and ours are shown to."""
    verdict: Verdict


def scores_of(results: Results) -> Scores:
    """The scores that rows are compared by, with those on drawn test sets where rows have kept counts.

    Raises:
        DataError: A file that a row has kept is damaged.
    """
    of_figures = ((figure, _scores_of_rows(figure, results)) for figure in results.experiment.judged)
    return {figure: SeedTests(of_rows) for figure, of_rows in of_figures if of_rows}


def judge(results: Results, scores: Scores | None = None) -> list[Judgement]:
    """Compare each computed row with its baselines, by each judged figure; `scores` are those of `scores_of`.

    Raises:
        DataError: A file that a row has kept is damaged.
    """
    of_figures = (scores_of(results) if scores is None else scores).items()
    return [found for figure, tests in of_figures for found in _judge_by(figure, tests, results)]


def verdict_on(results: Results, judgements: Sequence[Judgement]) -> str:
    """The results in a sentence; a row is decided if any of its figures is."""
    found: dict[str, set[Verdict]] = {}
    for judgement in judgements:
        found.setdefault(judgement.row, set()).add(judgement.verdict)
    rows: dict[Verdict, list[str]] = {verdict: [] for verdict in get_args(Verdict)}
    for row, of_row in found.items():
        rows[next(each for each in ("not as the paper", *rows) if each in of_row)].append(row)
    told = {
        each: f"{len(names)} {each}".replace("differs", "different") for each, names in rows.items() if names
    }
    for verdict in told.keys() & {"not as the paper", "differs"}:
        told[verdict] += f" ({', '.join(rows[verdict])})"
    parts = [told[verdict] for verdict in _DECIDED if verdict in told]
    left = [told[verdict] for verdict in told if verdict not in _DECIDED]
    number, of_all = sum(len(rows[verdict]) for verdict in _DECIDED), len(found)
    counted = (
        f"{number or 'None'} of {of_all} {'rows' if of_all > 1 else 'row'} {'are' if number > 1 else 'is'} "
        f"decided: {'; '.join(', '.join(part) for part in (parts, left) if part)}."
    )
    return results.experiment.verdict(results, counted if found else "No row has been compared with another.")


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation over seeds; None for a single seed, or if a value is not finite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def control(scores: Scores) -> tuple[int, int]:
    """Number of splits of a row's seeds that the test calls different, and number of all splits."""
    counts = [tests.control() for tests in scores.values()]
    return sum(different for different, _ in counts), sum(splits for _, splits in counts)


def are_sentences_drawn(figure: str, scores: Scores) -> bool:
    """Whether all rows whose figures are finite have kept what a test of them on drawn sentences needs."""
    tested = (row for row in scores[figure].systems.values() if np.isfinite(row.observed).all())
    return all(of_row.resampled is not None for of_row in tested)


class _Pair(NamedTuple):
    """A row and one of its baselines."""

    row: Row
    other: Row
    figure: str
    difference: float
    paper: tuple[float, float] | None
    """The paper's figures, that of the row first."""
    comparison: SeedComparison | None
    """None if the rows cannot be compared."""

    @property
    def difference_in_paper(self) -> float | None:
        return None if self.paper is None else self.paper[0] - self.paper[1]

    @property
    def equal_in_paper(self) -> bool:
        """Whether the paper's figures differ by at most one in the last digit that it prints."""
        last_digit = LAST_DIGIT.get(self.figure.removesuffix(AVERAGED), 0.0)
        return self.paper is not None and abs(self.paper[0] - self.paper[1]) < 1.5 * last_digit

    def is_close_in_paper(self, test: FigureTest) -> bool:
        """Whether the paper's figures differ by less than the margin of equivalence."""
        if self.paper is None:
            return False
        row, other = map(test.scale, self.paper)
        return self.equal_in_paper or abs(row - other) < test.margin


def _judge_by(figure: str, tests: SeedTests, results: Results) -> Iterator[Judgement]:
    pairs, test = list(_pairs(figure, tests, results)), find_test(figure)
    different = _adjusted([_p_different(pair, test) for pair in pairs])
    equivalent = _adjusted(
        [
            pair.comparison.p_equivalent(test.margin)
            if pair.comparison and pair.is_close_in_paper(test)
            else None
            for pair in pairs
        ]
        if test
        else [None] * len(pairs)
    )
    for pair, p_different, p_equivalent in zip(pairs, different, equivalent, strict=True):
        is_equivalent = p_equivalent is not None and p_equivalent < SIGNIFICANT
        beyond: Shown = "beyond the margin" if test and pair.equal_in_paper else "different"
        yield Judgement(
            pair.row.name,
            pair.other.name,
            figure,
            pair.difference,
            pair.difference_in_paper,
            p_equivalent if is_equivalent else p_different,
            "within the margin" if is_equivalent else beyond,
            "as the paper" if is_equivalent else _verdict(pair, p_different),
        )


def _p_different(pair: _Pair, test: FigureTest | None) -> float | None:
    """P-value of a difference, or, where the paper has none, of one beyond the margin of equivalence."""
    if pair.comparison is None:
        return None
    if test is None or not pair.equal_in_paper:
        return pair.comparison.p_value
    return pair.comparison.p_beyond(test.margin)


def _pairs(figure: str, tests: SeedTests, results: Results) -> Iterator[_Pair]:
    """Each row that has the figure, with each of its baselines that has it."""
    first, printed = results.rows[0], figure.removesuffix(AVERAGED)
    for row in results.rows:
        for other in results.rows:
            if other.name in row.compared_with(first) and {row.name, other.name} <= tests.systems.keys():
                in_both = printed in row.paper and printed in other.paper
                yield _Pair(
                    row,
                    other,
                    figure,
                    _difference(figure, results, row.name, other.name),
                    (row.paper[printed], other.paper[printed]) if in_both else None,
                    tests.compare(other.name, row.name),
                )


def _difference(figure: str, results: Results, row: str, other: str) -> float:
    of_row, of_other = (results.by_seed(name, figure) for name in (row, other))
    if both := of_row.keys() & of_other.keys():
        return statistics.fmean(of_row[seed] - of_other[seed] for seed in both)
    return statistics.fmean(of_row.values()) - statistics.fmean(of_other.values())


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; None stays None."""
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(adjusted) for p in p_values]


def _verdict(pair: _Pair, p_value: float | None) -> Verdict:
    if p_value is None:
        return "not tested"
    if p_value >= SIGNIFICANT:
        return "not told apart"
    if pair.difference_in_paper is None:
        return "differs"
    assert pair.comparison is not None
    holds = not pair.equal_in_paper and pair.comparison.difference * pair.difference_in_paper > 0
    return "as the paper" if holds else "not as the paper"


def _scores_of_rows(figure: str, results: Results) -> dict[str, SeedScores]:
    """Row -> the scores that are tested, per seed, and those on drawn test sets if it has kept counts."""
    test, found, all_drawn = find_test(figure), dict[str, SeedScores](), dict[Path, DrawnScores]()
    for row in results.outcomes:
        by_seed = results.by_seed(row, figure)
        if not by_seed:
            continue
        observed = np.array([test.scale(value) if test else value for value in by_seed.values()])
        folders = [results.directory / row / f"seed-{seed}" for seed in by_seed]
        kept = {folder: drawn_scores(figure, folder) for folder in folders if np.isfinite(observed).all()}
        drawn = {folder: of_seed for folder, of_seed in kept.items() if of_seed}
        is_drawn = len(drawn) == len(folders)
        resampled = np.array([of_seed.scores for of_seed in drawn.values()]) if is_drawn else None
        found[row] = SeedScores([*by_seed], observed, resampled)
        all_drawn |= drawn
    most = max((of_seed.num_sentences for of_seed in all_drawn.values()), default=0)
    for folder, of_seed in all_drawn.items():
        if of_seed.num_sentences < most:
            raise damaged_counts(folder)  # it has lost sentences: all rows are scored on the same ones
    return found
