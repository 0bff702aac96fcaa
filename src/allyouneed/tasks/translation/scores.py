"""How good a translator is, by its translations of sentences whose right ones are known."""

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
    """Scores of a translator on sentences whose translation is known, its perplexity the last of them.

    Args:
        translator: What translates.
        sources: One sentence each.
        references: The right translation of each.
        metrics: What compares the translations with the references; see `translation_metrics`.
        **options: As for `Translator.translate`.

    Raises:
        DataError: A sentence is too long, or there are not as many references as sources.
    """
    likelihood = translator.negative_log_likelihood(sources, references)
    texts = [translation.text for translation in translator.translate(sources, **options)]
    return [*(metric(texts, references) for metric in metrics), perplexity(*likelihood)]


def metrics_for(given: str | None, recorded: str = "", *, say: Callable[[str], None]) -> list[Metric]:
    """The metrics for translations into a language.

    Args:
        given: Code of the language that the user has named, for which all metrics must work.
        recorded: Code of the model's language, for which some may not work.
        say: Receives a line if BLEU on Moses tokens is left out.

    Raises:
        UsageError: There are no tokenisation rules for the language that is given.
    """
    if given:
        return translation_metrics(given)
    reason = "give --target-language"
    try:
        if recorded:
            return translation_metrics(recorded)
    except UsageError as error:
        reason = str(error)
    say(f"BLEU on Moses tokens is left out: {reason}")
    return translation_metrics(None)
