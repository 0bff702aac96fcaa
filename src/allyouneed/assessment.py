"""How good a translator is, by its translations of sentences whose translation is known."""

from collections.abc import Sequence
from typing import Any

from allyouneed.evaluation import Metric, Score, bleu_13a, chrf, perplexity
from allyouneed.translation import Translator


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[Metric] = (bleu_13a, chrf),
    **search: Any,
) -> list[Score]:
    """Scores of a translator on sentences whose translation is known, its perplexity the last of them.

    Args:
        translator: What translates.
        sources: One sentence each.
        references: The right translation of each.
        metrics: What compares the translations with the references; see `translation_metrics`.
        **search: As of `Translator.stream`.

    Raises:
        DataError: A sentence is too long, or there are not as many references as sources.
    """
    likelihood = translator.negative_log_likelihood(sources, references)
    texts = [translation.text for translation in translator.translate(sources, **search)]
    return [*(metric(texts, references) for metric in metrics), perplexity(*likelihood)]
