"""BPE-dropout: other segmentations of the same text, so that a model learns what words are made of.

Every merge of byte-pair encoding is left out with some probability (Provilkov et al., 2020, "BPE-Dropout:
Simple and Effective Subword Regularization"). Which ones follows from the place of the text alone, so the
result does not depend on what is done beside it, or in what order.
"""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.schedule import mixed
from allyouneed.data.store import Sentences
from allyouneed.data.tokenizer import FIRST_BYTE, Tokenizer
from allyouneed.symbols import SENTINEL

_VARIANTS = 64
"""Number of segmentations of a word that are drawn from; more would be almost the same, and slower."""
_MOST_KNOWN = 1 << 18  # some 300 bytes each
_ID = np.dtype("<u4")


class SubwordDropout:
    """Segments text anew, with a tokeniser by byte-pair encoding.

    `probability` is that a merge is left out, each time that it is possible; 0.1 in the paper.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        self._merges, self._probability = tokenizer.merges(), probability
        self._contents = [tokenizer.content(token) for token in range(tokenizer.vocab_size)]
        self._parts_of = tokenizer.parts
        self._begins = np.array([content[:1] == b" " for content in self._contents])
        symbols = SENTINEL, *tokenizer.languages.values()
        self._symbols = {np.array([token], _ID).tobytes() for token in symbols}
        self._parts: dict[bytes, list[list[int]]] = {}
        self._known: dict[tuple[bytes, int], bytes] = {}

    def applied(self, sentences: Sentences, places: NDArray[np.uint64]) -> Sentences:
        """The same sentences in other sub-words; `places`, a number for each, decide: (sentences,)."""
        ids, ends = sentences.ids, sentences.lengths.cumsum()
        is_begin = self._begins[ids]
        is_begin[(ends - sentences.lengths)[sentences.lengths > 0]] = True
        begins = is_begin.nonzero()[0]
        sentence_of = np.searchsorted(ends, begins, side="right")
        first_of = np.searchsorted(begins, ends - sentences.lengths)
        number = np.arange(len(begins)) - first_of[sentence_of]
        variants = mixed(places[sentence_of] + number.astype(np.uint64)) % np.uint64(_VARIANTS)
        content = ids.astype(_ID).tobytes()
        limits = (begins * _ID.itemsize).tolist()
        words = [
            self._word(content[begin:end], variant)
            for begin, end, variant in zip(
                limits, [*limits[1:], len(content)], variants.tolist(), strict=True
            )
        ]
        sizes = np.fromiter(map(len, words), np.int64, len(words)) // _ID.itemsize
        lengths = np.bincount(sentence_of, sizes, len(ends)).astype(np.int64)
        return Sentences(np.frombuffer(b"".join(words), _ID), lengths)

    def _word(self, word: bytes, variant: int) -> bytes:
        if word in self._symbols:
            return word
        if (known := self._known.get((word, variant))) is not None:
            return known
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._parts.clear()
        if (parts := self._parts.get(word)) is None:
            content = b"".join(self._contents[token] for token in np.frombuffer(word, _ID).tolist())
            parts = [[FIRST_BYTE + byte for byte in part] for part in self._parts_of(content)]
            self._parts[word] = parts
        draw = random.Random(word + bytes([variant]))
        found = [token for part in parts for token in self._segmented([*part], draw)]
        self._known[word, variant] = encoded = np.array(found, _ID).tobytes()
        return encoded

    def _segmented(self, symbols: list[int], draw: random.Random) -> Sequence[int]:
        merges, probability = self._merges, self._probability
        while True:
            best = min(
                (
                    (*merges[pair], place)
                    for place, pair in enumerate(pairwise(symbols))
                    if pair in merges and draw.random() >= probability
                ),
                default=None,
            )
            if best is None:
                return symbols
            _, merged, place = best
            symbols[place : place + 2] = [merged]
