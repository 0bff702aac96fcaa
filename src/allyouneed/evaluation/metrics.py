"""The metrics of translations in every convention: chrF, and BLEU in tokens of Moses and of others."""

import re
from collections.abc import Callable, Sequence

from allyouneed.errors import UsageError
from allyouneed.evaluation.bleu import (
    bleu_13a,
    bleu_of,
    choose_tokens,
    moses_bleu,
    moses_tools,
    multi_bleu,
    sacrebleu_metric,
)
from allyouneed.evaluation.scores import Metric, Score, aligned_references
from allyouneed.language_codes import is_language_code, primary_language

_COMPOUND = re.compile(r"(\S)-(\S)")

EXPLANATIONS = {
    "bleu_13a": "cased, mteval-v13a tokens: the default of sacreBLEU",
    "bleu_13a_lowercased": "as bleu_13a, but ignores case",
    "bleu_intl": "cased, mteval-v14 tokens: also splits off Unicode punctuation",
    "bleu_intl_lowercased": "as bleu_intl, but ignores case",
    "bleu_moses": "cased, Unicode punctuation replaced, Moses tokens, no smoothing: multi-bleu.perl, common "
    "before sacreBLEU",
    "bleu_lowercased_moses": "lower-cased, punctuation normalised, Moses tokens: as papers on Multi30k",
    "bleu_moses_compounds_split": "as bleu_moses, but split at hyphens: used by the paper on newstest2014; "
    "every hyphen becomes a token that is easy to match",
    "bleu_zh": "Chinese characters and other words: the default of sacreBLEU for Chinese",
    "bleu_ja_mecab": "words that MeCab finds: the default of sacreBLEU for Japanese",
    "bleu_ko_mecab": "words that MeCab finds: the default of sacreBLEU for Korean",
    "bleu_char": "characters, as sacreBLEU knows no words of the language, or needs MeCab (pip install "
    "'allyouneed[ja]' or 'allyouneed[ko]'); report chrF, too",
}
"""Name of a metric -> how it tokenises, and where it is used."""


def chrf(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """chrF2 by sacreBLEU's defaults: n-grams of 1 to 6 characters, recall weighted by 2 (Popović 2015).

    With several references, the one that is most similar to a hypothesis counts.

    Raises:
        DataError: The counts of hypotheses and references differ, or are 0.
    """
    from sacrebleu import CHRF

    metric = CHRF()
    value = metric.corpus_score(hypotheses, aligned_references(hypotheses, references)).score
    return Score("chrf", value, str(metric.get_signature()))


BESIDE_BLEU: Sequence[Metric] = (chrf,)
"""The metrics of every language that are not BLEU."""


def bleu_on_plain_text() -> list[Metric]:
    """The metrics on words that need no rules for the language."""
    return [
        bleu_13a,
        sacrebleu_metric("bleu_13a_lowercased", "13a", lowercase=True),
        sacrebleu_metric("bleu_intl", "intl"),
        sacrebleu_metric("bleu_intl_lowercased", "intl", lowercase=True),
    ]


def bleu_on_moses_tokens(language: str) -> list[Metric]:
    """The metrics on Moses tokens; raises UsageError without sacremoses, or its rules for the language."""
    return [
        _cased_moses("bleu_moses", language, str, ""),
        moses_bleu(language),
        _cased_moses("bleu_moses_compounds_split", language, split_compounds, "-compounds-split"),
    ]


def split_compounds(tokens: str) -> str:
    """Turn `rich-text format` into `rich ##AT##-##AT## text format`.

    The script behind published figures on newstest2014, the paper's included, does the same
    (`get_ende_bleu.sh` of tensor2tensor).
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)


def _cased_moses(name: str, language: str, finish: Callable[[str], str], remark: str) -> Metric:
    """BLEU of `multi-bleu.perl` on tokens of `replace-unicode-punctuation.perl | tokenizer.perl -l de`."""
    normalizer, tokenizer = moses_tools(language)

    def tokenize(line: str) -> str:
        plain = normalizer.replace_unicode_punct(line)
        return finish(str(tokenizer.tokenize(plain, return_str=True)))

    return multi_bleu(name, tokenize, {"tok": f"moses-{language}-punctuation-replaced{remark}"})


def translation_metrics(
    target_language: str, references: Sequence[str], say: Callable[[str], None] = lambda line: None
) -> list[Metric]:
    """The metrics for translations into a language, "" if unknown; the first is the one to report.

    The references are looked at if the language does not tell what their tokens are. `say` receives a line if
    metrics are left out.
    """
    tokens = choose_tokens(target_language, references)
    recommended = bleu_of(tokens)
    if tokens.why_not_words:
        advice = _advice(target_language)
        reason = tokens.why_not_words + (f"; report chrF, or {advice}" if advice else "")
        say(f"BLEU on words (13a, intl and Moses tokens) is left out: {reason}")
        return [recommended, *BESIDE_BLEU]
    on_words = [*bleu_on_plain_text(), *_on_moses_tokens(target_language, say)]
    others = (metric for metric in on_words if metric.__name__ != recommended.__name__)
    return [recommended, *others, *BESIDE_BLEU]


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
