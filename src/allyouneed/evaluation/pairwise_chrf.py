"""chrF of each text of a group against each other, many at once, for minimum Bayes risk decoding."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu import CHRF

_BETA_SQUARED = 4


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """sacreBLEU's sentence-level chrF2 of each text against each as reference: (hypotheses, references)."""
    shape = len(texts), len(texts)
    precision, recall, num_orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for order in range(1, CHRF.CHAR_ORDER + 1):
        present = _occurrences(texts, order)
        matches, lengths = (present @ present.T).astype(np.float64), present.sum(axis=1, dtype=np.float64)
        counted = (lengths[:, None] > 0) & (lengths[None, :] > 0)
        precision += np.divide(matches, lengths[:, None], where=counted, out=np.zeros(shape))
        recall += np.divide(matches, lengths[None, :], where=counted, out=np.zeros(shape))
        num_orders += counted
    # These are sums, not means: dividing both by `num_orders` leaves one factor in the denominator.
    weighted = (_BETA_SQUARED * precision + recall) * num_orders
    product = (1 + _BETA_SQUARED) * precision * recall
    return 100 * np.divide(product, weighted, where=weighted > 0, out=np.zeros(shape))


def _occurrences(texts: Sequence[str], order: int) -> NDArray[np.float32]:
    """1 where a text has an n-gram, else 0: (texts, n-grams). A repeated n-gram gets a column per occurrence.

    The dot product of two rows is therefore the sum, over n-grams, of the smaller count.
    """
    columns: dict[tuple[str, int], int] = {}
    rows = []
    for text in texts:
        characters, seen = "".join(text.split()), Counter[str]()
        row = []
        for start in range(len(characters) - order + 1):
            ngram = characters[start : start + order]
            seen[ngram] += 1
            row.append(columns.setdefault((ngram, seen[ngram]), len(columns)))
        rows.append(row)
    present = np.zeros((len(texts), len(columns)), np.float32)
    for number, row in enumerate(rows):
        present[number, row] = 1
    return present
