"""A score with its signature, and perplexity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from allyouneed.errors import DataError
from allyouneed.version import __version__


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


class Metric(Protocol):
    """A function of hypotheses and one or more line-aligned lists of references."""

    __name__: str

    def __call__(self, hypotheses: Sequence[str], /, *references: Sequence[str]) -> Score:
        """Score hypotheses, each by the references of its line."""
        ...


def aligned_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Lists of references as sacreBLEU takes them, each as long as the hypotheses.

    An empty line means that a sentence has no such reference, and becomes None; one stays if all are empty.

    Raises:
        DataError: The counts differ, or there is nothing to score.
    """
    for lines in references:
        if len(hypotheses) != len(lines):
            first = min(len(hypotheses), len(lines)) + 1
            raise DataError(
                f"{len(hypotheses)} hypotheses but {len(lines)} references, so that line {first} is alone; "
                "give one hypothesis for each reference"
            )
    if not hypotheses:
        raise DataError("0 hypotheses and 0 references: there is nothing to score; give at least one line")
    rows = ([line if line.strip() else None for line in row] for row in zip(*references, strict=True))
    found = [row if any(row) else ["", *row[1:]] for row in rows]
    return [list(column) for column in zip(*found, strict=True)]


def headline(*systems: Score) -> str:
    """The score to report, of one system or of several, such as `BLEU 34.6 (13a)`."""
    name, values = systems[0].name, " and ".join(f"{score.value:.1f}" for score in systems)
    if name == "bracket_f1":
        return f"F1 {values} (labelled brackets)"
    if name.startswith("bleu_"):
        return f"BLEU {values} ({name.removeprefix('bleu_')})"
    return f"{name} {values}"


def format_scores(scores: Sequence[Score]) -> str:
    """A table for people, one score per line: name, value to two decimals, signature."""
    width = max((len(score.name) for score in scores), default=0)
    return "\n".join(f"{score.name:<{width}}  {score.value:8.2f}  {score.signature}" for score in scores)


def scores_to_json(scores: Sequence[Score]) -> dict[str, dict[str, float | str]]:
    """The scores for JSON: metric name -> {"score", "signature"}."""
    return {score.name: {"score": score.value, "signature": score.signature} for score in scores}


def perplexity(negative_log_likelihood_sum: float, num_tokens: int) -> Score:
    """exp(-1/n * sum of log p(token)); comparable only between models with the same vocabulary.

    Args:
        negative_log_likelihood_sum: Sum over all target tokens, in nats, without label smoothing.
        num_tokens: Number of target word-pieces, including the end symbol of each sentence.
    """
    try:
        value = math.exp(negative_log_likelihood_sum / num_tokens)
    except OverflowError:
        value = math.inf
    signature = f"per:word-piece|end:counted|label-smoothing:no|version:allyouneed-{__version__}"
    return Score("perplexity", value, signature)
