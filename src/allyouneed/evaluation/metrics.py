"""Which metrics a task is scored by: to add one, write a function `(hypotheses, references) -> Score`."""

from allyouneed.evaluation.bleu import bleu_13a, moses_bleu
from allyouneed.evaluation.chrf import chrf
from allyouneed.evaluation.score import Metric


def translation_metrics(target_language: str | None) -> list[Metric]:
    """The metrics of task 1; those on Moses tokens only where the target language is known.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    moses = [moses_bleu(target_language)] if target_language else []
    return [bleu_13a, *moses, chrf]
