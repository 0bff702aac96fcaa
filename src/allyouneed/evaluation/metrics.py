"""The metrics of each task: to add one, write a function `(hypotheses, references) -> Score`."""

from allyouneed.evaluation.chrf import chrf
from allyouneed.evaluation.conventions import bleu_in_every_convention
from allyouneed.evaluation.score import Metric


def translation_metrics(target_language: str | None) -> list[Metric]:
    """The metrics of task 1; those on Moses tokens only if the target language is given.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    return [*bleu_in_every_convention(target_language), chrf]
