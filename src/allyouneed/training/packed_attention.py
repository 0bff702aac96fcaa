"""Equation 1 in training on a CPU, with what is around its two products as one kernel each way."""

import ctypes
import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from allyouneed.model.attention import scaled_dot_product_attention
from allyouneed.model.masks import ImplicitMask, Positions
from allyouneed.native.gradient_kernels import TYPES, is_known
from allyouneed.native.header import structures
from allyouneed.native.library import form_of, library


def attention_by_kernel(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
    positions: Positions | None = None,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1 as `scaled_dot_product_attention`, by the kernels unless they do not know the type.

    Scores and weights are stored in the type of the products, and computed in float32.
    """
    if query.dtype not in TYPES:
        return scaled_dot_product_attention(query, key, value, mask, positions)
    if isinstance(mask, ImplicitMask):
        return mask.attend(attention_by_kernel, query, key, value)
    scores = query @ key.transpose(-2, -1)
    weights: Tensor = _Softmax.apply(scores, mask, 1 / math.sqrt(query.size(-1)))  # type: ignore[no-untyped-call]
    return weights @ value


class _Softmax(torch.autograd.Function):
    """The softmax of scaled scores where a mask is True; overwrites the scores."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Tensor, scale: float) -> Tensor:
        assert is_known(scores)
        batch, heads, queries, keys = scores.shape
        mask = mask.expand(batch, 1, queries, keys)
        mask = mask if mask.stride(-1) == 1 else mask.contiguous()
        fields = structures()["scores"](
            *(batch, heads, queries, keys, mask.stride(0), mask.stride(2), mask.data_ptr(), scale)
        )
        ctx.form, ctx.scale = form_of(scores.dtype), scale
        done = library().attention_softmax(
            ctypes.byref(fields), ctx.form, scores.data_ptr(), torch.get_num_threads()
        )
        if not done:
            raise MemoryError
        ctx.mark_dirty(scores)
        ctx.save_for_backward(scores)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        gradient, of_scores = gradient.contiguous(), torch.empty_like(weights)
        keys = weights.size(-1)
        library().attention_softmax_backward(
            *(weights.numel() // max(1, keys), keys, ctx.form, weights.data_ptr(), gradient.data_ptr()),
            *(ctx.scale, of_scores.data_ptr(), torch.get_num_threads()),
        )
        return of_scores, None, None
