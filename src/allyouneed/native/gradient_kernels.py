"""Kernels of the loss and of sums of gradients; where there are none, PyTorch computes."""

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.native.library import FORMS, library

TYPES = torch.float32, torch.bfloat16
"""Types that the kernels of training know."""


def softmax_(logits: Float[Tensor, "rows vocab"]) -> Float[Tensor, " rows"]:
    """Replace each row of logits by its softmax; only where there are kernels.

    Returns:
        The log-sum-exp of each row, in float32.

    Raises:
        MemoryError: There is no memory for a row in float32.
    """
    assert is_known(logits)
    normalisers = torch.empty(len(logits))
    places = logits.data_ptr(), normalisers.data_ptr()
    if not library().softmax_rows(*logits.shape, form_of(logits.dtype), *places, torch.get_num_threads()):
        raise MemoryError
    return normalisers


def accumulate_(sums: Tensor, values: Tensor) -> None:
    """Add values of any layout and type to sums, in place; by the kernel if they are in bfloat16.

    PyTorch would first copy these to float32.
    """
    known = is_known(sums) and is_known(values) and sums.shape == values.shape
    if known and (sums.dtype, values.dtype) == (torch.float32, torch.bfloat16) and library():
        library().accumulate(sums.numel(), values.data_ptr(), sums.data_ptr(), torch.get_num_threads())
    else:
        sums += values


def scaled_difference(
    values: Float[Tensor, "rows width"], row: Float[Tensor, " width"], scale: Float[Tensor, ""]
) -> Float[Tensor, "rows width"]:
    """`scale * (values - row)` in the type of `row`; may overwrite the values."""
    if not (is_known(values) and row.dtype == torch.float32 and library()):
        return values.to(row.dtype).sub_(row).mul_(scale)
    row = row.contiguous()
    out = values if values.dtype == row.dtype else torch.empty_like(values, dtype=row.dtype)
    library().scaled_difference(
        *(*values.shape, form_of(values.dtype), values.data_ptr(), row.data_ptr()),
        *(scale.item(), out.data_ptr(), torch.get_num_threads()),
    )
    return out


def is_known(values: Tensor) -> bool:
    """Whether the kernels can read the values."""
    return (
        values.is_cpu and values.layout == torch.strided and values.dtype in TYPES and values.is_contiguous()
    )


def form_of(dtype: torch.dtype) -> int:
    """The number of a form in `kernels.h`."""
    return FORMS.index(str(dtype).removeprefix("torch."))
