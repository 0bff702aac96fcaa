"""Splits texts into sub-words by way of their words, each of which is split once.

A tokeniser puts a space before a text and never joins what stands on both sides of a space. So the ids of a
text are those of its words, one after another, wherever single spaces are its only white space.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from allyouneed.data.store import Sentences

_MOST_WORDS, _MOST_CHARACTERS = 1 << 18, 1 << 23
"""What to know before beginning anew: about 100 MB of memory."""
_ID = np.dtype(np.uint32)
_LINE_END = "\n"
_NO_ID = np.iinfo(_ID).max

Encode = Callable[[Sequence[str]], list[list[int]]]


class WordCache:
    """Knows the ids of the words that it has seen. May be used by several threads at once.

    Args:
        encode: Splits texts, and puts a space before each.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._forget()

    def encode(self, texts: Sequence[str]) -> Sentences:
        """The ids of each text; the same as from `encode` of the constructor."""
        lines = _LINE_END.join(texts)
        if not texts or lines.count(_LINE_END) >= len(texts):
            return Sentences.of(self._encode(texts))
        if _is_plain(lines.replace(_LINE_END, " ")):
            words = lines.replace(_LINE_END, f" {_LINE_END} ").split(" ")
            words.append(_LINE_END)
        else:
            parts = (text.split(" ") if _is_plain(text) else [text] for text in texts)
            words = [*chain.from_iterable((*part, _LINE_END) for part in parts)]
        known = self._knowing(set(words))
        ids = np.frombuffer(b"".join(map(known.__getitem__, words)), _ID)
        ends = (ids == _NO_ID).nonzero()[0]
        return Sentences(ids[ids != _NO_ID], np.diff(ends, prepend=-1) - 1)

    def _knowing(self, words: set[str]) -> dict[str, bytes]:
        """Ids by word, of these words and others."""
        known = self._known  # from which no word is removed, as another thread may be using it
        new = [word for word in words if word not in known]
        if len(known) + len(new) > _MOST_WORDS or self._num_characters > _MOST_CHARACTERS:
            known = self._forget()
            new = [word for word in words if word not in known]
        known.update(zip(new, (np.array(ids, _ID).tobytes() for ids in self._encode(new)), strict=True))
        self._num_characters += sum(map(len, new))
        return known

    def _forget(self) -> dict[str, bytes]:
        self._known, self._num_characters = {_LINE_END: np.array([_NO_ID], _ID).tobytes()}, 0
        return self._known


def _is_plain(text: str) -> bool:
    """Whether single spaces between words are the only white space."""
    return " ".join(text.split()) == text
