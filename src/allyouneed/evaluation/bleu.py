"""Corpus BLEU in the conventions of published figures (paper 6.1)."""

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allyouneed.errors import UsageError
from allyouneed.evaluation.score import Metric, Score, require_aligned


def sacrebleu_metric(name: str, tokenizer: str, *, lowercase: bool) -> Metric:
    """BLEU as sacreBLEU computes it on plain text with one of its tokenisers."""

    def metric(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
        from sacrebleu import BLEU

        require_aligned(hypotheses, references)
        # `force` only silences a warning that the text may be tokenised.
        bleu = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
        value = bleu.corpus_score(hypotheses, [references]).score
        return Score(name, value, str(bleu.get_signature()))

    metric.__name__ = name
    return metric


def bleu_13a(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU as sacreBLEU computes it by default, on plain text: cased, with the tokens of WMT's mteval-v13a.

    Raises:
        DataError: The counts of hypotheses and references differ, or are 0.
    """
    return sacrebleu_metric("bleu_13a", "13a", lowercase=False)(hypotheses, references)


def moses_bleu(language: str) -> Metric:
    """BLEU as papers on Multi30k and older ones on WMT report it: lower-cased, on Moses tokens, unsmoothed.

    Hypotheses and references are plain text; both go through `moses_tokenizer`, then `multi-bleu.perl`.

    Args:
        language: Code of the target language, such as "de".

    Returns:
        The metric `bleu_lowercased_moses`.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    told = {"case": "lc", "tok": f"moses-{language}-normalised"}
    return multi_bleu("bleu_lowercased_moses", moses_tokenizer(language), told)


def multi_bleu(name: str, tokenize: Callable[[str], str], told: Mapping[str, str]) -> Metric:
    """BLEU as `multi-bleu.perl` computes it: unsmoothed, on lines tokenised with sacremoses.

    Args:
        name: Name of the metric.
        tokenize: Function from a line to its tokens, separated by spaces.
        told: Entries of the signature that describe the tokens.
    """

    def metric(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
        from sacrebleu import BLEU

        require_aligned(hypotheses, references)
        bleu = BLEU(tokenize="none", smooth_method="none", force=True)
        tokenized = [tokenize(line) for line in hypotheses], [[tokenize(line) for line in references]]
        value = bleu.corpus_score(*tokenized).score
        signature = bleu.get_signature()
        for key, text in told.items():
            signature.update(key, text)
        signature.update("sacremoses", importlib.metadata.version("sacremoses"))
        return Score(name, value, str(signature))

    metric.__name__ = name
    return metric


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """A tokeniser of lines like `lowercase.perl | normalize-punctuation.perl -l de | tokenizer.perl -l de`.

    The tokenised Multi30k data are made in this way (`task1-tokenize.sh` there).

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    normalizer, tokenizer = moses_tools(language)
    return lambda line: str(tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True))


def moses_tools(language: str) -> tuple[Any, Any]:
    """The punctuation normaliser and tokeniser of sacremoses, which follow the Perl scripts.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    try:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError:
        raise UsageError("Moses tokens need sacremoses: pip install 'allyouneed[moses]'") from None
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise UsageError(f"Moses has no rules for the language {language!r}; take one of {', '.join(known)}")
    # Without perl_parity the port corrects two rules of the script, and tokens differ from published ones.
    normalizer = sacremoses.MosesPunctNormalizer(language, perl_parity=True)
    return normalizer, sacremoses.MosesTokenizer(language)
