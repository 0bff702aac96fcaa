"""Comparison of the rows of an experiment: same direction as in the paper, another, or only noise."""

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.lines import read_lines
from allyouneed.evaluation.significance import BLEU_13A, SIGNIFICANT, SummedMetric, paired_bootstrap_of_runs
from allyouneed.paper.experiment import HYPOTHESES, REFERENCES, Experiment, Results, Row
from allyouneed.tasks.parsing.bracket_f1 import Brackets, score_tree
from allyouneed.tasks.parsing.trees import tree_of

LAST_DIGIT = {"perplexity": 0.01, "bleu": 0.1, "bracket_f1": 0.1}
"""One unit in the last digit that the paper prints of a figure; so small a difference may be rounding."""
T_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""0.975 quantiles of Student's t for 1, 2, .. degrees of freedom; the last one serves for more degrees."""
_Outputs = tuple[tuple[str, ...], ...]
"""The lines that a row has written, for each seed."""


@dataclass(frozen=True)
class RowComparison:
    """A row compared with another row, over all seeds."""

    baseline: str
    """Name of the other row."""
    differences: Mapping[str, float]
    """Figure -> mean of the row minus mean of the baseline."""
    paper: Mapping[str, float]
    """Figure -> the paper's difference."""
    p_value: float | None
    """P-value of the paired bootstrap for the figure that `bootstrapped` names. It resamples sentences, each
    with its outputs of all common seeds."""
    verdicts: Mapping[str, str]
    """Figure -> "as the paper", "not as the paper", "noise", or "differs" where the paper has no figure."""


def compare(results: Results, row: Row) -> list[RowComparison]:
    """Compare a row with its baselines, as far as they have been computed."""
    names = row.compared_with(results.rows[0])
    return [_compare(results, row, other) for other in results.rows if other.name in names]


def bootstrapped(experiment: Experiment) -> str | None:
    """The figure to test by the bootstrap, computed from outputs that rows keep; None if there is none."""
    return next((figure for figure in METRICS if figure in experiment.figures), None)


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation over seeds; None for a single seed."""
    return statistics.stdev(values) if len(values) > 1 else None


def _compare(results: Results, row: Row, other: Row) -> RowComparison:
    values = {
        figure: (of_row, of_other)
        for figure in results.experiment.figures
        if (of_row := results.values(row.name, figure)) and (of_other := results.values(other.name, figure))
    }
    in_both = row.paper.keys() & other.paper.keys()
    paper = {figure: row.paper[figure] - other.paper[figure] for figure in values if figure in in_both}
    tested = bootstrapped(results.experiment)
    p_value = _p_value(results, row, other, tested) if tested else None
    verdicts = {
        figure: _verdict(*values[figure], _direction(figure, paper), p_value if figure == tested else None)
        for figure in values
        if results.experiment.figures[figure]
    }
    differences = {figure: _difference(*both) for figure, both in values.items()}
    return RowComparison(other.name, differences, paper, p_value, verdicts)


def _difference(values: Sequence[float], others: Sequence[float]) -> float:
    return statistics.fmean(values) - statistics.fmean(others)


def _direction(figure: str, paper: Mapping[str, float]) -> int | None:
    """Whether the paper's figure is larger (1), smaller (-1) or about equal (0); None if it has none."""
    if figure not in paper:
        return None
    difference = paper[figure]
    return 0 if abs(difference) < 1.5 * LAST_DIGIT.get(figure, 0.0) else int(math.copysign(1, difference))


def _verdict(
    values: Sequence[float], others: Sequence[float], direction: int | None, p_value: float | None
) -> str:
    noise = _is_noise(values, others, p_value)
    if direction == 0 and noise is not None:
        return "as the paper" if noise else "not as the paper"
    if noise in (True, None):
        return "noise"
    if direction is None:
        return "differs"
    return "as the paper" if _difference(values, others) * direction > 0 else "not as the paper"


def _is_noise(values: Sequence[float], others: Sequence[float], p_value: float | None) -> bool | None:
    """Whether a difference may be due to the seeds or, given a p-value, to the choice of sentences.

    None if neither is known: both rows have one seed, and the figure has no p-value. If one row has a single
    seed, it is assumed to vary as much as the other.
    """
    if p_value is not None and p_value >= SIGNIFICANT:
        return True
    freedom = len(values) + len(others) - 2
    if freedom == 0:
        return None if p_value is None else False
    squares = sum((len(v) - 1) * (deviation(v) or 0.0) ** 2 for v in (values, others))
    spread = math.sqrt(squares / freedom * (1 / len(values) + 1 / len(others)))
    quantile = T_QUANTILES[min(freedom, len(T_QUANTILES)) - 1]
    return abs(_difference(values, others)) <= quantile * spread


def _p_value(results: Results, row: Row, other: Row, figure: str) -> float | None:
    """P-value of the bootstrap on the outputs of both rows; None without a common seed."""
    seeds, of_other = (
        {seed for seed, figures in results.outcomes.get(name, {}).items() if figure in figures}
        for name in (row.name, other.name)
    )
    folders = [f"seed-{seed}" for seed in sorted(seeds & of_other)]
    if not folders:
        return None
    baseline, system = results.directory / other.name, results.directory / row.name
    before, after = (
        tuple(tuple(read_lines(place / folder / HYPOTHESES)) for folder in folders)
        for place in (baseline, system)
    )
    return _bootstrapped(before, after, tuple(read_lines(system / folders[0] / REFERENCES)), figure)


@functools.cache  # the table is written anew after each row
def _bootstrapped(before: _Outputs, after: _Outputs, references: tuple[str, ...], figure: str) -> float:
    return paired_bootstrap_of_runs(before, after, references, metric=METRICS[figure]).p_value


def _bracket_counts(trees: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    pairs = zip(references, trees, strict=True)
    found = (score_tree(tree_of(gold), tree_of(tree) if tree else None).brackets for gold, tree in pairs)
    return np.array([[brackets.matched, brackets.gold, brackets.test] for brackets in found])


METRICS = {
    "bleu": BLEU_13A,
    "bracket_f1": SummedMetric(
        _bracket_counts, lambda sums: Brackets(*sums.tolist()).f1, "evalb:COLLINS.prm"
    ),
}
