"""BLEU in every convention of published figures, and how these differ (paper 6.1)."""

import re
from collections.abc import Callable

from allyouneed.evaluation.bleu import bleu_13a, moses_bleu, moses_tools, multi_bleu, sacrebleu_metric
from allyouneed.evaluation.score import Metric

_COMPOUND = re.compile(r"(\S)-(\S)")

EXPLANATIONS = {
    "bleu_13a": "cased, mteval-v13a tokens: the default of sacreBLEU, recommended for reports",
    "bleu_13a_lowercased": "as bleu_13a, but ignores case",
    "bleu_intl": "cased, mteval-v14 tokens: also splits off Unicode punctuation",
    "bleu_intl_lowercased": "as bleu_intl, but ignores case",
    "bleu_moses": "cased, Unicode punctuation replaced, Moses tokens, no smoothing: multi-bleu.perl, common "
    "before sacreBLEU",
    "bleu_lowercased_moses": "lower-cased, punctuation normalised, Moses tokens: as papers on Multi30k",
    "bleu_moses_compounds_split": "as bleu_moses, but split at hyphens: used by the paper on newstest2014; "
    "every hyphen becomes a token that is easy to match",
}
"""Name of a metric -> how it tokenises, and where it is used."""


def bleu_in_every_convention(target_language: str | None) -> list[Metric]:
    """The metrics of `EXPLANATIONS`; those on Moses tokens only if the target language is given.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    plain = [
        bleu_13a,
        sacrebleu_metric("bleu_13a_lowercased", "13a", lowercase=True),
        sacrebleu_metric("bleu_intl", "intl", lowercase=False),
        sacrebleu_metric("bleu_intl_lowercased", "intl", lowercase=True),
    ]
    if not target_language:
        return plain
    return [
        *plain,
        _cased_moses("bleu_moses", target_language, str, ""),
        moses_bleu(target_language),
        _cased_moses("bleu_moses_compounds_split", target_language, split_compounds, "-compounds-split"),
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
