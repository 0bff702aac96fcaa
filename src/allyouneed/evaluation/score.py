"""A score: its name, its value, and a signature that tells how it was computed (paper 6.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allyouneed.errors import DataError


@dataclass(frozen=True)
class Score:
    """The result of a metric.

    Args:
        name: Name of the metric, and key of the score in reports.
        value: Value of the score: BLEU and chrF from 0 to 100, perplexity from 1.
        signature: Tokenisation, case, smoothing and versions; compare values only if these are equal.
    """

    name: str
    value: float
    signature: str


Metric = Callable[[Sequence[str], Sequence[str]], Score]
"""A function of hypotheses and line-aligned references."""


def require_aligned(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Require one hypothesis for each reference.

    Raises:
        DataError: The counts differ, or there is nothing to score.
    """
    if len(hypotheses) != len(references):
        first = min(len(hypotheses), len(references)) + 1
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(references)} references, so that line {first} is alone; "
            "give one hypothesis for each reference"
        )
    if not hypotheses:
        raise DataError("0 hypotheses and 0 references: there is nothing to score; give at least one line")


def format_scores(scores: Sequence[Score]) -> str:
    """A table for people, one score per line: name, value to two decimals, signature."""
    width = max((len(score.name) for score in scores), default=0)
    return "\n".join(f"{score.name:<{width}}  {score.value:8.2f}  {score.signature}" for score in scores)


def scores_to_json(scores: Sequence[Score]) -> dict[str, dict[str, float | str]]:
    """The scores for JSON: metric name -> {"score", "signature"}."""
    return {score.name: {"score": score.value, "signature": score.signature} for score in scores}
