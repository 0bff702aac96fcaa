"""The kernels called with PyTorch's tensors in the place of NumPy's arrays."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.native import attention_kernels, kernels, linear


class PackedLinear(linear.PackedLinear):
    """A packed layer from tensors to tensors."""

    def __init__(self, weight: Tensor, bias: Tensor | None, form: str, **options: Any) -> None:
        super().__init__(weight.numpy(), None if bias is None else bias.numpy(), form, **options)

    def __call__(self, x: Any, room: Any = None) -> Any:
        return torch.from_numpy(super().__call__(x.contiguous().numpy(), room))


class Heads(attention_kernels.Heads):
    """Heads whose rows are tensors."""

    def __init__(self, num_heads: int, d_k: int, d_v: int, form: str, slopes: Tensor | None = None) -> None:
        super().__init__(num_heads, d_k, d_v, form, None if slopes is None else slopes.numpy())


def stored_rows(heads: Heads, keys_values: Tensor) -> Tensor:
    """Rows of keys and values."""
    rows = heads.room(len(keys_values))
    heads.store(keys_values.contiguous().numpy(), rows)
    return torch.from_numpy(rows)


def packed(weight: Tensor, bias: Tensor, form: str, layout: Any) -> dict[str, Tensor]:
    """Name -> packed tensor."""
    arrays = linear.pack(weight.detach().numpy(), bias.detach().numpy(), form, layout)._asdict()
    return {name: tensor_of(array) for name, array in arrays.items()}


def tensor_of(array: Any) -> Tensor:
    """The array as a tensor; numbers of 16 bits are bfloat16."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if array.dtype == np.uint16 else tensor


def top_log_probs(logits: Tensor, k: int, excluded: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """`kernels.top_log_probs` of tensors."""
    values, ids = kernels.top_log_probs(logits.contiguous().numpy(), k, excluded, **options)
    return torch.from_numpy(values), torch.from_numpy(ids)
