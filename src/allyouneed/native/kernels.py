"""The rows that attention reads, and the kernels that choose tokens; all tensors are on the CPU."""

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.native.header import structures
from allyouneed.native.library import library


class Rows:
    """The rows that each query attends to: query i attends to `rows[starts[i] : starts[i] + counts[i]]`.

    Args:
        rows: Row indices of all queries, int32, read as flattened.
        starts: Index of each query's first entry in `rows`, int64.
        counts: Number of rows of each query, int32, at least 1.
        group: Number of queries computed together because they share rows; it does not change the result.
    """

    def __init__(
        self,
        rows: Int[Tensor, "*shape"],
        starts: Int[Tensor, " queries"],
        counts: Int[Tensor, " queries"],
        group: int = 1,
    ) -> None:
        for tensor, dtype in ((rows, torch.int32), (starts, torch.int64), (counts, torch.int32)):
            assert tensor.dtype == dtype
            assert tensor.is_contiguous()
        assert len(starts) == len(counts)
        self.num_queries = len(counts)
        self._tensors = rows, starts, counts
        self._attended = structures()["attended"](
            rows.data_ptr(), starts.data_ptr(), counts.data_ptr(), group
        )
        self.address = ctypes.addressof(self._attended)
        """Address of `struct attended`, valid for the lifetime of this object."""


def log_sum_exp(logits: Float[Tensor, "*rows vocab"], threads: int = 1) -> Float[Tensor, " *rows"]:
    """Log-sum-exp of each row."""
    _require_rows(logits)
    normalisers = torch.empty(logits.shape[:-1])
    library().normalisers_of(
        normalisers.numel(), logits.size(-1), logits.data_ptr(), normalisers.data_ptr(), threads
    )
    return normalisers


def top_log_probs(
    logits: Float[Tensor, "*rows vocab"],
    k: int,
    excluded: Sequence[int],
    normalisers: Float[Tensor, " *rows"] | None = None,
    threads: int = 1,
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k most probable tokens of each row, as in `selection.top_log_probs`; overwrites the logits.

    Args:
        logits: Contiguous logits.
        k: Number of tokens per row.
        excluded: Tokens that are never chosen but keep their share of the probability.
        normalisers: Value to subtract from each row; by default the row's log-sum-exp.
        threads: Number of threads that share the rows.
    """
    _require_rows(logits)
    values = torch.empty(*logits.shape[:-1], k)
    ids = torch.empty(*logits.shape[:-1], k, dtype=torch.int64)
    never = torch.tensor(excluded, dtype=torch.int64)
    library().top_log_probs(
        logits[..., 0].numel(),
        logits.size(-1),
        logits.data_ptr(),
        None if normalisers is None else normalisers.data_ptr(),
        never.data_ptr(),
        len(never),
        k,
        values.data_ptr(),
        ids.data_ptr(),
        threads,
    )
    return values, ids


def _require_rows(tensor: Tensor) -> None:
    """Check the layout, because the kernels read the memory as it is."""
    assert tensor.is_cpu
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
