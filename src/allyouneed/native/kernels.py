"""The kernels that choose tokens; in NumPy."""

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allyouneed.native.arrays import Bool, Float32, Int64, address_of
from allyouneed.native.library import library
from allyouneed.symbols import END


def log_sum_exp(logits: Float32[np.ndarray, "*rows vocab"]) -> Float32[np.ndarray, " *rows"]:
    """Log-sum-exp of each row."""
    _require_rows(logits)
    normalisers = np.empty(logits.shape[:-1], np.float32)
    places = address_of(logits), address_of(normalisers)
    library().normalisers_of(normalisers.size, logits.shape[-1], *places)
    return normalisers


def top_log_probs(
    logits: Float32[np.ndarray, "*rows vocab"],
    k: int,
    excluded: Sequence[int],
    normalisers: Float32[np.ndarray, " *rows"] | None = None,
    cannot_end: Bool[np.ndarray, " *rows"] | None = None,
) -> tuple[Float32[np.ndarray, "*rows k"], Int64[np.ndarray, "*rows k"]]:
    """The k most probable tokens of each row, the likeliest first, and their log-probabilities.

    Args:
        logits: Contiguous logits.
        k: Number of tokens per row.
        excluded: Tokens that are never chosen but keep their share of the probability.
        normalisers: Value to subtract from each row; by default the row's log-sum-exp.
        cannot_end: Rows in which the end symbol is not chosen either.
    """
    _require_rows(logits)
    *leading, width = logits.shape
    num_rows = math.prod(leading)
    assert normalisers is None or (normalisers.size == num_rows and normalisers.flags.c_contiguous)
    assert cannot_end is None or (cannot_end.size == num_rows and cannot_end.dtype == np.bool_)
    assert width > max((*excluded, 0 if cannot_end is None else END))
    values, ids = np.empty((*leading, k), np.float32), np.empty((*leading, k), np.int64)
    never = _array_of(tuple(excluded))
    library().top_log_probs(
        num_rows,
        width,
        address_of(logits),
        None if normalisers is None else address_of(normalisers),
        address_of(never),
        len(never),
        None if cannot_end is None else address_of(cannot_end),
        END,
        k,
        address_of(values),
        address_of(ids),
        1,
    )
    return values, ids


@functools.cache
def _array_of(tokens: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(tokens, np.int64)


def _require_rows(logits: NDArray[np.float32]) -> None:
    """Check the layout, because the kernels read the memory as it is."""
    assert logits.dtype == np.float32
    assert logits.flags.c_contiguous
