"""Tells where each target token comes from, by the translation table of a corpus.

A head of attention that is trained to look there learns word alignment (Garg et al. 2019, arXiv:1909.02074),
and the model learns faster, as it does not have to find the alignment by itself.
"""

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.store import PairStore
from allyouneed.data.translation_table import TranslationTable, learn_translation_table
from allyouneed.symbols import END, PADDING

_MAX_LINKS = 1 << 23
"""Links that a table is learned from: those of 30,000 pairs of 16 tokens, in some seconds."""
_LEAST = 1e-4
"""Probabilities below this one are left out, and targets of which all sources together do not reach it."""


class AlignmentGuide:
    """For each target token, the probability that each source token generates it."""

    def __init__(self, table: TranslationTable, target_vocab_size: int) -> None:
        kept = (table.probabilities >= _LEAST) & (table.sources != PADDING)
        self._vocab_size = target_vocab_size
        self._keys = table.sources[kept] * target_vocab_size + table.targets[kept]  # ascending
        self._probabilities = table.probabilities[kept].astype(np.float32)

    @classmethod
    def learn(cls, store: PairStore, target_vocab_size: int) -> "AlignmentGuide":
        """Learn a guide from the pairs of a store, or every n-th of many."""
        table = learn_translation_table(store, target_vocab_size, max_links=_MAX_LINKS)
        return cls(table, target_vocab_size)

    def __call__(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float32]:
        """The weights of the source positions of each target position.

        Args:
            source: Sentences with the end symbol, padded: (rows, source_len).
            target: Their translations, likewise: (rows, target_len).

        Returns:
            (rows, target_len, source_len). The weights of a position sum to 1, or are all 0 if the table does
            not know where its token comes from. The end comes from the end.
        """
        keys = source[:, None, :] * self._vocab_size + target[:, :, None]
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        weights = np.where(self._keys[places] == keys, self._probabilities[places], np.float32(0))
        weights[(target == END)[:, :, None] & (source == END)[:, None, :]] = 1
        totals, shares = weights.sum(axis=2, keepdims=True), np.zeros(weights.shape, np.float32)
        np.divide(weights, totals, out=shares, where=totals >= _LEAST)
        return shares
