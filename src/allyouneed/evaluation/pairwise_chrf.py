"""chrF (Popović 2015) between all pairs of sentences, as matrix products."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LONGEST_NGRAM = 6
_BETA_SQUARED = 4
_COLUMNS_AT_ONCE = 8_192


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """sacreBLEU's sentence-level chrF2 of each text against each as reference: (hypotheses, references)."""
    shape = len(texts), len(texts)
    precision, recall, num_orders = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for order in range(1, _LONGEST_NGRAM + 1):
        rows, num_columns = _occurrences(texts, order)
        matches, lengths = _matches(rows, num_columns), np.array([len(row) for row in rows], np.float64)
        counted = (lengths[:, None] > 0) & (lengths[None, :] > 0)
        precision += np.divide(matches, lengths[:, None], where=counted, out=np.zeros(shape))
        recall += np.divide(matches, lengths[None, :], where=counted, out=np.zeros(shape))
        num_orders += counted
    # These are sums, not means: dividing both by `num_orders` leaves one factor in the denominator.
    weighted = (_BETA_SQUARED * precision + recall) * num_orders
    product = (1 + _BETA_SQUARED) * precision * recall
    return 100 * np.divide(product, weighted, where=weighted > 0, out=np.zeros(shape))


def _occurrences(texts: Sequence[str], order: int) -> tuple[list[NDArray[np.int64]], int]:
    """The columns of the n-grams that each text has, ascending, and the number of columns.

    A repeated n-gram has a column per occurrence. The number of columns that two texts share is therefore the
    sum, over n-grams, of the smaller count.
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
        rows.append(np.sort(np.array(row, np.int64)))
    return rows, len(columns)


def _matches(rows: Sequence[NDArray[np.int64]], num_columns: int) -> NDArray[np.float64]:
    """Number of columns that each two texts share, by products of zeros and ones, some columns at a time."""
    matches = np.zeros((len(rows), len(rows)))
    for first in range(0, num_columns, _COLUMNS_AT_ONCE):
        present = np.zeros((len(rows), min(_COLUMNS_AT_ONCE, num_columns - first)), np.float32)
        for number, row in enumerate(rows):
            begin, end = np.searchsorted(row, (first, first + _COLUMNS_AT_ONCE))
            present[number, row[begin:end] - first] = 1
        matches += present @ present.T
    return matches
