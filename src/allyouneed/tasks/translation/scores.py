"""Evaluation of a translator on sentences with reference translations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from allyouneed.evaluation import Metric, Score, bleu_of, choose_tokens, chrf, perplexity

if TYPE_CHECKING:
    from allyouneed.tasks.translation.options import TranslateOptions
    from allyouneed.tasks.translation.translator import Translator


def evaluate(
    translator: "Translator",
    sources: Sequence[str],
    *references: Sequence[str],
    metrics: Sequence[Metric] | None = None,
    **options: "Unpack[TranslateOptions]",
) -> list[Score]:
    """Scores of a translator on sentences with reference translations; the last score is the perplexity.

    Args:
        translator: The translator to evaluate.
        sources: Source sentences.
        *references: One reference translation per source, or several lists of them, in which an empty line
            stands for none. The perplexity is that of the first.
        metrics: Metrics that compare translations with references; by default BLEU on the tokens of the
            model's target language, and chrF.
        **options: Options of `Translator.translate`.

    Raises:
        DataError: A sentence is too long, or the numbers of references and sources differ.
    """
    if metrics is None:
        metrics = bleu_of(choose_tokens(translator.config.data.target_language, references[0])), chrf
    likelihood = translator.negative_log_likelihood(sources, references[0])
    texts = [translation.text for translation in translator.translate(sources, **options)]
    return [*(metric(texts, *references) for metric in metrics), perplexity(*likelihood)]
