"""Attention, rotary positions, dropout and the residual connection in training on a CPU, by kernels."""

import ctypes
import math
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from allyouneed.model.attention import fused_attention, scaled_dot_product_attention
from allyouneed.model.dropout import Dropout, drop, generator
from allyouneed.model.layers import add_and_norm
from allyouneed.model.masks import ImplicitMask, Positions
from allyouneed.model.position_tables import rotations
from allyouneed.model.relative_positions import turn_pairs
from allyouneed.native.gradient_kernels import TYPES, form_of, is_known
from allyouneed.native.header import structures
from allyouneed.native.library import library


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
        mask = _opened(mask, batch, queries, keys)
        fields = _scores(heads, mask, scale)
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


def short_attention_by_kernel(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
    positions: Positions | None = None,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1 as `fused_attention`; by a kernel of all of it if sentences are short, in float32."""
    if isinstance(mask, ImplicitMask):
        return mask.attend(short_attention_by_kernel, query, key, value)
    if query.dtype != torch.float32 or not 0 < query.size(2) <= _LONGEST or not 0 < key.size(2) <= _LONGEST:
        return fused_attention(query, key, value, mask, positions)
    return _Attention.apply(query, key, value, mask)  # type: ignore[no-any-return, no-untyped-call]


_LONGEST = 48
"""Number of tokens up to which the kernel is faster than PyTorch's."""


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        query, key, value = map(_rows, (query, key, value))
        batch, queries, heads, d_k = query.shape
        keys, d_v = key.size(1), value.size(-1)
        mask = _opened(mask, batch, queries, keys)
        ctx.scores = _scores(heads, mask, 1 / math.sqrt(d_k))
        weights, out = torch.empty(batch, heads, queries, keys), torch.empty(batch, queries, heads, d_v)
        done = library().attention_forward(
            *(ctypes.byref(ctx.scores), d_k, d_v, *map(_headed, (query, key, value))),
            *(weights.data_ptr(), _headed(out), torch.get_num_threads()),
        )
        if not done:
            raise MemoryError
        ctx.scores.mask = None  # which `backward` does not read
        ctx.save_for_backward(query, key, value, weights)
        return out.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *read, weights = ctx.saved_tensors
        gradient, found = _rows(gradient), [torch.empty(each.shape) for each in read]
        done = library().attention_backward(
            *(ctypes.byref(ctx.scores), read[0].size(-1), read[2].size(-1), *map(_headed, read)),
            *(weights.data_ptr(), *map(_headed, (gradient, *found)), torch.get_num_threads()),
        )
        if not done:
            raise MemoryError
        return *(each.transpose(1, 2) for each in found), None


def _opened(mask: Tensor, batch: int, queries: int, keys: int) -> Bool[Tensor, "batch 1 queries keys"]:
    """The mask of all queries and keys, those of a query side by side."""
    mask = mask.expand(batch, 1, queries, keys)
    return mask if mask.stride(-1) == 1 else mask.contiguous()


def _scores(heads: int, mask: Bool[Tensor, "batch 1 queries keys"], scale: float) -> ctypes.Structure:
    """The kernels' scores; holds the place of the mask, which has to stay."""
    batch, _, queries, keys = mask.shape
    strides = mask.stride(0), mask.stride(2)
    return structures()["scores"](batch, heads, queries, keys, *strides, mask.data_ptr(), scale)


def _rows(x: Float[Tensor, "batch heads length width"]) -> Float[Tensor, "batch length heads width"]:
    """The rows of all heads, those of a row contiguous."""
    rows = x.transpose(1, 2)
    return rows if rows.stride()[2:] == (rows.size(-1), 1) else rows.contiguous()


def _headed(rows: Float[Tensor, "batch length heads width"]) -> Any:
    return ctypes.byref(structures()["headed"](rows.data_ptr(), *rows.stride()[:2]))


def turn_pairs_by_kernel(
    x: Float[Tensor, "batch heads length d_k"],
    positions: Int[Tensor, "#batch length"],
    frequencies: Float[Tensor, " pairs"],
) -> Float[Tensor, "batch heads length d_k"]:
    """`turn_pairs` by a kernel unless it does not know the type; by the frequencies of rotary positions."""
    if x.dtype not in TYPES:
        return turn_pairs(x, positions, frequencies)
    places = positions.to(torch.int64).expand(x.size(0), -1).contiguous()
    return _Turn.apply(x, places)  # type: ignore[no-any-return, no-untyped-call]


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, positions: Tensor) -> Tensor:
        ctx.save_for_backward(positions)
        return _turned(x, positions, is_back=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _turned(gradient, *ctx.saved_tensors, is_back=True), None


def _turned(x: Tensor, positions: Tensor, *, is_back: bool) -> Tensor:
    rows = _rows(x)
    batch, length, heads, d_k = rows.shape
    stride = rows.stride(1)
    if rows.stride(0) != length * stride:
        rows, stride = rows.contiguous(), heads * d_k
    out = torch.empty((batch, length, heads, d_k), dtype=x.dtype)
    if out.numel():
        angles = _angles(d_k, 1 << int(positions.max()).bit_length())
        turn = structures()["turn"](
            *(heads, d_k, stride, heads * d_k, positions.data_ptr(), angles.data_ptr(), is_back)
        )
        library().turn_pairs(
            *(ctypes.byref(turn), batch * length, form_of(x.dtype), rows.data_ptr(), out.data_ptr()),
            torch.get_num_threads(),
        )
    return out.transpose(1, 2)


@cache
def _angles(d_k: int, length: int) -> Tensor:
    return torch.from_numpy(rotations(length, d_k))


_LEVELS = 1 << 32
"""Number of values of a 32-bit draw."""


def add_and_norm_by_kernel(
    x: Float[Tensor, "*rows d_model"], y: Float[Tensor, "*rows d_model"], dropout: Dropout, norm: nn.LayerNorm
) -> Float[Tensor, "*rows d_model"]:
    """`add_and_norm` on a CPU; in training by a kernel, unless it does not know the types."""
    known = (x.dtype, norm.weight.dtype) == (torch.float32, torch.float32) and y.dtype in TYPES
    if not (dropout.training and known):
        return add_and_norm(x, y, dropout, norm)
    drops = _dropout(dropout.rate)
    out: Tensor = _AddNorm.apply(x, y, norm.weight, norm.bias, norm.eps, drops)  # type: ignore[no-untyped-call]
    return out


def _dropout(rate: float) -> ctypes.Structure:
    """The kernels' dropout, with a new key; both passes compute the same mask from it."""
    # Deviation: the rate is rounded to a multiple of 2^-32; see docs/paper.md.
    dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    key = torch.zeros((), dtype=torch.int64)
    if dropped:
        key.random_(-(2**63), None, generator=generator())
    return structures()["dropout"](int(key), dropped - _LEVELS // 2, _LEVELS / (_LEVELS - dropped))


def drop_by_kernel(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """`drop` on a CPU, by a kernel unless it does not know the type; no mask is kept for the gradient."""
    if x.dtype not in TYPES:
        return drop(x, rate)
    return _Drop.apply(x, _dropout(rate))  # type: ignore[no-any-return, no-untyped-call]


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: ctypes.Structure) -> Tensor:
        ctx.dropout = dropout
        return _dropped(x, dropout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _dropped(gradient, ctx.dropout), None


def _dropped(x: Tensor, dropout: ctypes.Structure) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    library().drop(
        *(x.numel(), form_of(x.dtype), x.data_ptr(), ctypes.byref(dropout)),
        *(out.data_ptr(), torch.get_num_threads()),
    )
    return out


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        gains: Tensor,
        biases: Tensor,
        epsilon: float,
        dropout: ctypes.Structure,
    ) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        width = x.size(-1)
        out, normed, factors = torch.empty_like(x), torch.empty_like(x), torch.empty(x.numel() // width)
        norm = structures()["norm"](gains.data_ptr(), biases.data_ptr(), epsilon)
        ctx.form, ctx.dropout = form_of(y.dtype), dropout
        library().add_norm_forward(
            *(len(factors), width, x.data_ptr(), ctx.form, y.data_ptr()),
            *(ctypes.byref(dropout), ctypes.byref(norm)),
            *(normed.data_ptr(), factors.data_ptr(), out.data_ptr(), torch.get_num_threads()),
        )
        ctx.save_for_backward(normed, factors, gains)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normed, factors, gains = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_x, of_y = torch.empty_like(normed), torch.empty_like(normed, dtype=TYPES[ctx.form])
        of_gains, of_biases = torch.empty_like(gains), torch.empty_like(gains)
        done = library().add_norm_backward(
            *(len(factors), len(gains), gradient.data_ptr(), normed.data_ptr(), factors.data_ptr(), ctx.form),
            *(ctypes.byref(ctx.dropout), gains.data_ptr(), of_x.data_ptr(), of_y.data_ptr()),
            *(of_gains.data_ptr(), of_biases.data_ptr(), torch.get_num_threads()),
        )
        if not done:
            raise MemoryError
        return of_x, of_y, of_gains, of_biases, None, None
