"""Evaluation of a translator on sentences with reference translations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from allyouneed.data.lines import is_blank
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
            stands for none. The perplexity is that of the first, without its empty lines.
        metrics: Metrics that compare translations with references; by default BLEU on the tokens of the
            model's target language, and chrF.
        **options: Options of `Translator.translate`.

    Raises:
        DataError: A sentence is too long, or the numbers of references and sources differ.
    """
    if metrics is None:
        metrics = bleu_of(choose_tokens(translator.config.data.target_language, references[0])), chrf
    likelihood = translator.negative_log_likelihood(*_with_reference(sources, references))
    texts = [translation.text for translation in translator.translate(sources, **options)]
    return [*(metric(texts, *references) for metric in metrics), perplexity(*likelihood)]


def _with_reference(
    sources: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[str]]:
    """The sources that have a first reference, and these; all if there is a single list of references."""
    first = references[0]
    kept = [number for number, text in enumerate(first) if not is_blank(text)]
    if len(references) == 1 or not kept or len(first) != len(sources):
        return sources, first
    return [sources[number] for number in kept], [first[number] for number in kept]
