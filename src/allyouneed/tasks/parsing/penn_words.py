"""Sentences as people write them into words as the Penn Treebank has them, by the tokeniser of NLTK."""

from functools import cache
from typing import Any

from allyouneed.errors import UsageError
from allyouneed.tasks.parsing.trees import unescaped

_TYPEWRITTEN = str.maketrans({"“": "``", "”": "''", "‘": "` ", "’": "'", "—": "--", "–": "--", "…": "..."})
"""The Treebank has no other quotes and dashes. To split them off is left to NLTK, which tells by the spaces
around them quotes that open from those that close. Only a single one that opens it leaves at its word."""


def penn_words(sentence: str) -> list[str]:
    """The words and marks of one sentence: `ca n't`, `` `` '' `` for quotes, the last full stop by itself.

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
