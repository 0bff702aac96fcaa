"""Judges the rows of an experiment: do the paper's differences hold, or can rows not be told apart?"""

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.lines import read_lines
from allyouneed.errors import DataError
from allyouneed.evaluation.seeds import SeedComparison, SeedScores, called_different, compare_seeds, holm
from allyouneed.evaluation.significance import BLEU_13A, SIGNIFICANT, Counts, resampled_scores
from allyouneed.paper.experiment import HYPOTHESES, LOSSES, REFERENCES, RESULT, Results, Row, kept_file
from allyouneed.tasks.parsing.bracket_f1 import Brackets, score_tree
from allyouneed.tasks.parsing.trees import tree_of

LAST_DIGIT = {"perplexity": 0.01, "bleu": 0.1, "bracket_f1": 0.1}
"""One unit in the last digit that the paper prints of a figure; so small a difference may be rounding."""
Verdict = Literal["as the paper", "not as the paper", "differs", "not told apart", "not tested"]


@dataclass(frozen=True)
class Judgement:
    """A figure of a row, compared with that of another row over all seeds."""

    row: str
    baseline: str
    """Name of the other row."""
    figure: str
    difference: float
    """Mean of the row minus mean of the baseline."""
    paper: float | None
    """The paper's difference; None if it has none."""
    p_value: float | None
    """P-value of the verdict, with Holm's correction over all rows: of equal rows or, if the paper's figures
    are equal, of rows that differ by less than the margin, or by more if `equivalent`. None if a row has one
    seed, or if the figures do not vary or are not finite."""
    equivalent: bool
    """Whether equivalence is shown; tested only if the paper's figures are equal."""
    verdict: Verdict


class FigureTest(NamedTuple):
    """How a figure is tested."""

    files: Sequence[str]
    """Files that a row keeps, with a line per sentence."""
    counts: Callable[..., Counts]
    """Lines of these files -> counts per sentence, [sentences, counts]."""
    score: Callable[[Counts], float]
    """The tested score, from the sums of the counts."""
    margin: float
    """Rows whose tested scores differ by less are equivalent."""
    margin_in_words: str
    scale: Callable[[float], float] = float
    """The figure -> the tested score."""


def _loss_counts(losses: Sequence[str]) -> NDArray[np.float64]:
    counts = np.array([[float(value) for value in line.split("\t")] for line in losses])
    if not (np.isfinite(counts).all() and counts[:, 1].min() > 0):
        raise ValueError("no loss and number of tokens in each line")
    return counts


def _mean_loss(sums: Counts) -> float:
    return float(sums[0] / sums[1])


def _bracket_counts(trees: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    pairs = zip(references, trees, strict=True)
    found = (score_tree(tree_of(gold), tree_of(tree) if tree else None).brackets for gold, tree in pairs)
    return np.array([[brackets.matched, brackets.gold, brackets.test] for brackets in found])


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


_OUTPUTS = (HYPOTHESES, REFERENCES)
TESTS = {
    "perplexity": FigureTest([LOSSES], _loss_counts, _mean_loss, math.log(1.02), "2% of perplexity", _log),
    "bleu": FigureTest(_OUTPUTS, BLEU_13A.counts, BLEU_13A.score, 0.5, "0.5 BLEU"),
    "bracket_f1": FigureTest(
        _OUTPUTS, _bracket_counts, lambda sums: Brackets(*sums.tolist()).f1, 0.5, "0.5 bracket F1"
    ),
}
"""Figure -> its test. The margins are ours: half of the 0.9 BLEU that section 6.2 calls worse, and a quarter
of the difference between the perplexities, 5.29 and 4.92."""


def judge(results: Results) -> list[Judgement]:
    """Compare each computed row with its baselines, by each figure that rows are compared by."""
    judged = (figure for figure, is_judged in results.experiment.figures.items() if is_judged)
    return [judgement for figure in judged for judgement in _judge_by(figure, results)]


def deviation(values: Sequence[float]) -> float | None:
    """Standard deviation over seeds; None for a single seed, or if a value is not finite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def control(results: Results) -> tuple[int, int]:
    """How often the test calls seeds of one row different, over all rows, figures and splits of their seeds.

    Returns:
        Number of splits that are called different, and number of splits.
    """
    counts = [
        called_different(scores)
        for figure, is_judged in results.experiment.figures.items()
        if is_judged
        for scores in _scores_of_rows(figure, results).values()
    ]
    return sum(different for different, _ in counts), sum(splits for _, splits in counts)


def are_sentences_drawn(figure: str, results: Results) -> bool:
    """Whether all rows have kept what a test of the figure on drawn sentences needs."""
    scores = _scores_of_rows(figure, results).values()
    return bool(scores) and all(found.resampled is not None for found in scores)


class _Pair(NamedTuple):
    """A row and one of its baselines."""

    row: Row
    other: Row
    figure: str
    difference: float
    paper: float | None
    comparison: SeedComparison | None
    """None if a row has one seed, or if the figures do not vary or are not finite."""

    @property
    def equal_in_paper(self) -> bool:
        """Whether the paper's figures differ by at most one in the last digit that it prints."""
        return self.paper is not None and abs(self.paper) < 1.5 * LAST_DIGIT.get(self.figure, 0.0)


def _judge_by(figure: str, results: Results) -> Iterator[Judgement]:
    pairs, test = list(_pairs(figure, results)), find_test(figure)
    different = _adjusted([_p_different(pair, test) for pair in pairs])
    equivalent = _adjusted(
        [
            pair.comparison.p_equivalent(test.margin) if pair.comparison and pair.equal_in_paper else None
            for pair in pairs
        ]
        if test
        else [None] * len(pairs)
    )
    for pair, p_different, p_equivalent in zip(pairs, different, equivalent, strict=True):
        is_equivalent = p_equivalent is not None and p_equivalent < SIGNIFICANT
        yield Judgement(
            pair.row.name,
            pair.other.name,
            figure,
            pair.difference,
            pair.paper,
            p_equivalent if is_equivalent else p_different,
            is_equivalent,
            "as the paper" if is_equivalent else _verdict(pair, p_different),
        )


def _p_different(pair: _Pair, test: FigureTest | None) -> float | None:
    """P-value of a difference, or, where the paper has none, of one beyond the margin of equivalence."""
    if pair.comparison is None:
        return None
    if test is None or not pair.equal_in_paper:
        return pair.comparison.p_value
    return pair.comparison.p_beyond(test.margin)


def _pairs(figure: str, results: Results) -> Iterator[_Pair]:
    """Each row that has the figure, with each of its baselines that has it."""
    scores, first = _scores_of_rows(figure, results), results.rows[0]
    for row in results.rows:
        for other in results.rows:
            if other.name in row.compared_with(first) and {row.name, other.name} <= scores.keys():
                in_both = figure in row.paper and figure in other.paper
                both = scores[other.name], scores[row.name]
                yield _Pair(
                    row,
                    other,
                    figure,
                    _mean(results, row, figure) - _mean(results, other, figure),
                    row.paper[figure] - other.paper[figure] if in_both else None,
                    compare_seeds(*both) if min(len(of_row.observed) for of_row in both) > 1 else None,
                )


def _mean(results: Results, row: Row, figure: str) -> float:
    return statistics.fmean(results.values(row.name, figure))


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction; None stays None."""
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(adjusted) for p in p_values]


def _verdict(pair: _Pair, p_value: float | None) -> Verdict:
    if p_value is None:
        return "not tested"
    if p_value >= SIGNIFICANT:
        return "not told apart"
    if pair.paper is None:
        return "differs"
    holds = not pair.equal_in_paper and pair.difference * pair.paper > 0
    return "as the paper" if holds else "not as the paper"


def find_test(figure: str) -> FigureTest | None:
    """The test of a figure; `bleu_21_30`, the BLEU of sentences with 21 to 30 tokens, is tested as BLEU."""
    return next((test for name, test in TESTS.items() if f"{figure}_".startswith(f"{name}_")), None)


def _scores_of_rows(figure: str, results: Results) -> dict[str, SeedScores]:
    """Row -> the scores that are tested, per seed.

    Raises:
        DataError: A file that a row has kept is damaged.
    """
    test, found, lengths = find_test(figure), dict[str, SeedScores](), dict[Path, int]()
    for row, outcomes in results.outcomes.items():
        if not results.values(row, figure):
            continue
        observed = np.array(results.values(row, figure))
        if test is None:
            found[row] = SeedScores(observed)
            continue
        observed = np.array([test.scale(value) for value in observed])
        folders = [
            results.directory / row / f"seed-{seed}"
            for seed, figures in sorted(outcomes.items())
            if figures.get(figure) is not None
        ]
        found[row] = _scores(figure, test, observed, folders, lengths)
    _require_same_length(lengths)
    return found


def _scores(
    figure: str,
    test: FigureTest,
    observed: NDArray[np.float64],
    folders: Sequence[Path],
    lengths: dict[Path, int],
) -> SeedScores:
    """The scores of a row, with those on drawn test sets if it has kept files; `lengths` gets their lines."""
    name = next(name for name in TESTS if TESTS[name] is test)
    kept = [
        [folder / kept_file(file, figure.removeprefix(name)) for file in test.files] for folder in folders
    ]
    if not np.isfinite(observed).all() or not all(file.is_file() for files in kept for file in files):
        return SeedScores(observed)
    resampled = []
    for files in kept:
        lines = tuple(tuple(read_lines(file)) for file in files)
        lengths[files[0]] = len(lines[0])
        resampled.append(_resampled_in(files[0], name, lines))
    return SeedScores(observed, np.array(resampled))


def _resampled_in(file: Path, name: str, lines: tuple[tuple[str, ...], ...]) -> NDArray[np.float64]:
    try:
        scores = _resampled(name, lines)
    except (DataError, ValueError, IndexError, ArithmeticError):
        raise _damaged(file) from None
    if not np.isfinite(scores).all():
        raise _damaged(file)
    return scores


def _require_same_length(lengths: Mapping[Path, int]) -> None:
    """Refuse files that have lost lines: all rows are scored on the same sentences."""
    for file, num_lines in lengths.items():
        if num_lines < max(lengths.values()):
            raise _damaged(file)


def _damaged(file: Path) -> DataError:
    return DataError(f"{file}: is damaged; delete {file.with_name(RESULT)} to compute the row again")


@functools.lru_cache(maxsize=1_000)  # the report is written anew after each row
def _resampled(name: str, lines: tuple[tuple[str, ...], ...]) -> NDArray[np.float64]:
    return resampled_scores(TESTS[name].counts(*lines), TESTS[name].score)
