"""Evaluation of a translator on sentences with reference translations."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from allyouneed.errors import UsageError
from allyouneed.evaluation import Metric, Score, bleu_13a, chrf, perplexity, translation_metrics

if TYPE_CHECKING:
    from allyouneed.tasks.translation.options import TranslateOptions
    from allyouneed.tasks.translation.translator import Translator


def evaluate(
    translator: "Translator",
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[Metric] = (bleu_13a, chrf),
    **options: "Unpack[TranslateOptions]",
) -> list[Score]:
    """Scores of a translator on sentences with reference translations; the last score is the perplexity.

    Args:
        translator: The translator to evaluate.
        sources: Source sentences.
        references: One reference translation per source.
        metrics: Metrics that compare translations with references; see `translation_metrics`.
        **options: Options of `Translator.translate`.

    Raises:
        DataError: A sentence is too long, or the numbers of references and sources differ.
    """
    likelihood = translator.negative_log_likelihood(sources, references)
    texts = [translation.text for translation in translator.translate(sources, **options)]
    return [*(metric(texts, references) for metric in metrics), perplexity(*likelihood)]


def metrics_for(given: str | None, recorded: str = "", *, say: Callable[[str], None]) -> list[Metric]:
    """The metrics for translations into a language.

    Args:
        given: Language code from the user; all metrics must support it.
        recorded: Language code of the model; some metrics may not support it.
        say: Receives a line if BLEU on Moses tokens is left out.

    Raises:
        UsageError: There are no tokenisation rules for the language `given`.
    """
    if given:
        return translation_metrics(given)
    reason = "give target_language"
    try:
        if recorded:
            return translation_metrics(recorded)
    except UsageError as error:
        reason = str(error)
    say(f"BLEU on Moses tokens is left out: {reason}")
    return translation_metrics(None)
