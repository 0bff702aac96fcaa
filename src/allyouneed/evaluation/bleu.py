"""BLEU of a corpus, in the conventions that published figures use (paper 6.1)."""

import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu import BLEU

from allyouneed.errors import UsageError
from allyouneed.evaluation.score import Metric, Score, require_aligned


def bleu_13a(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU as sacreBLEU computes it by default, on plain text: cased, with the tokens of WMT's mteval-v13a.

    Raises:
        DataError: There is not one hypothesis for each reference.
    """
    require_aligned(hypotheses, references)
    metric = BLEU(force=True)  # only silences a guess, in the log, that the text is tokenised
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("bleu_13a", value, str(metric.get_signature()))


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
    tokenize = moses_tokenizer(language)

    def bleu_lowercased_moses(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
        require_aligned(hypotheses, references)
        metric = BLEU(tokenize="none", smooth_method="none", force=True)
        tokenized = [tokenize(line) for line in hypotheses], [[tokenize(line) for line in references]]
        value = metric.corpus_score(*tokenized).score
        signature = metric.get_signature()
        signature.update("case", "lc")
        signature.update("tok", f"moses-{language}-normalised")
        signature.update("sacremoses", importlib.metadata.version("sacremoses"))
        return Score("bleu_lowercased_moses", value, str(signature))

    return bleu_lowercased_moses


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """What `lowercase.perl | normalize-punctuation.perl -l de | tokenizer.perl -l de` does to a line.

    It is how the tokenised Multi30k data are made (`task1-tokenize.sh` there).

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language.
    """
    normalizer, tokenizer = moses_tools(language)
    return lambda line: str(tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True))


def moses_tools(language: str) -> tuple[Any, Any]:
    """sacremoses' normaliser of punctuation and tokeniser, as the Perl scripts are.

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
    # Without perl_parity the port mends two rules of the script, and its tokens are not the published ones.
    normalizer = sacremoses.MosesPunctNormalizer(language, perl_parity=True)
    return normalizer, sacremoses.MosesTokenizer(language)
