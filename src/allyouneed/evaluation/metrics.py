"""The metrics of each task: to add one, write a function `(hypotheses, *references) -> Score`."""

from collections.abc import Callable, Sequence

from allyouneed.errors import UsageError
from allyouneed.evaluation.bleu import bleu_of
from allyouneed.evaluation.bleu_tokens import choose_tokens
from allyouneed.evaluation.chrf import chrf
from allyouneed.evaluation.conventions import bleu_on_moses_tokens, bleu_on_plain_text
from allyouneed.evaluation.score import Metric
from allyouneed.language_codes import is_language_code, primary_language


def translation_metrics(
    target_language: str, references: Sequence[str], say: Callable[[str], None] = lambda line: None
) -> list[Metric]:
    """The metrics for translations into a language; the first is the one to report.

    Args:
        target_language: Language code, such as "de" or "pt-BR"; "" if unknown.
        references: References, which are looked at if the language does not tell what their tokens are.
        say: Receives a line if metrics are left out.
    """
    tokens = choose_tokens(target_language, references)
    recommended = bleu_of(tokens)
    if tokens.why_not_words:
        advice = _advice(target_language)
        reason = tokens.why_not_words + (f"; report chrF, or {advice}" if advice else "")
        say(f"BLEU on words (13a, intl and Moses tokens) is left out: {reason}")
        return [recommended, chrf]
    on_words = [*bleu_on_plain_text(), *_on_moses_tokens(target_language, say)]
    return [recommended, *(metric for metric in on_words if metric.__name__ != recommended.__name__), chrf]


def _advice(target_language: str) -> str:
    """The remedy for a code that names no language; "" if it may name one."""
    if not target_language:
        return "give target_language"
    if is_language_code(target_language):
        return ""
    return f"give another target_language than {target_language!r}, which is no code of ISO 639"


def _on_moses_tokens(target_language: str, say: Callable[[str], None]) -> list[Metric]:
    """The metrics on Moses tokens; none if there are no rules for the language."""
    reason = _advice(target_language)
    try:
        if not reason:
            return bleu_on_moses_tokens(primary_language(target_language))
    except UsageError as error:
        reason = str(error)
    say(f"BLEU on Moses tokens is left out: {reason}")
    return []
