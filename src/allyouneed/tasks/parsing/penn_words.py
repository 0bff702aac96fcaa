"""Splits ordinary sentences into words of the Penn Treebank, with NLTK's tokeniser."""

from functools import cache
from typing import Any

from allyouneed.errors import UsageError
from allyouneed.tasks.parsing.trees import unescaped

_TYPEWRITTEN = str.maketrans({"“": "``", "”": "''", "‘": "` ", "’": "'", "—": "--", "–": "--", "…": "..."})
"""The Treebank has no other quotes and dashes. NLTK splits them off, and tells opening from closing quotes by
the spaces around them. It would not split off an opening single quote; hence the space after that."""


def penn_words(sentence: str) -> list[str]:
    """Words and punctuation of one sentence: `ca n't`, `` `` '' `` for quotes, the final full stop alone.

    Raises:
        UsageError: NLTK is not installed.
    """
    return [unescaped(word) for word in _tokenizer().tokenize(sentence.translate(_TYPEWRITTEN))]


@cache
def _tokenizer() -> Any:
    try:
        from nltk.tokenize.treebank import TreebankWordTokenizer
    except ImportError:
        raise UsageError(
            "splitting sentences into words needs NLTK; pip install 'allyouneed[parsing]',"
            " or give words with spaces between them (tokenized)",
            settings=["tokenized"],
        ) from None
    return TreebankWordTokenizer()
