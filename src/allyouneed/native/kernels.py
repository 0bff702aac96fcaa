"""The kernels that choose tokens; all tensors are on the CPU."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.native.attention_kernels import address_of
from allyouneed.native.library import library
from allyouneed.symbols import END


def log_sum_exp(logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, " *rows"]:
    """Log-sum-exp of each row."""
    _require_rows(logits)
    normalisers = torch.empty(logits.shape[:-1])
    library().normalisers_of(normalisers.numel(), logits.size(-1), logits.data_ptr(), normalisers.data_ptr())
    return normalisers


def top_log_probs(
    logits: Float[Tensor, "*rows vocab"],
    k: int,
    excluded: Sequence[int],
    normalisers: Float[Tensor, " *rows"] | None = None,
    cannot_end: Bool[np.ndarray, " *rows"] | None = None,
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k most probable tokens of each row, as in `selection.top_log_probs`.

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
    assert normalisers is None or (normalisers.numel() == num_rows and normalisers.is_contiguous())
    assert cannot_end is None or (cannot_end.size == num_rows and cannot_end.dtype == np.bool_)
    assert width > max((*excluded, 0 if cannot_end is None else END))
    values = torch.empty(*leading, k)
    ids = torch.empty(*leading, k, dtype=torch.int64)
    never = _array_of(tuple(excluded))
    library().top_log_probs(
        num_rows,
        width,
        logits.data_ptr(),
        None if normalisers is None else normalisers.data_ptr(),
        address_of(never),
        len(never),
        None if cannot_end is None else address_of(cannot_end),
        END,
        k,
        values.data_ptr(),
        ids.data_ptr(),
        1,
    )
    return values, ids


@functools.cache
def _array_of(tokens: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(tokens, np.int64)


def _require_rows(tensor: Tensor) -> None:
    """Check the layout, because the kernels read the memory as it is."""
    assert tensor.is_cpu
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
