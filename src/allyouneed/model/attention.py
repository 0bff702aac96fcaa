"""Attention (paper 3.2): `Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V` and its multi-head form."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

from allyouneed.model.packing import PackedMask

_FLASH_TYPES = torch.float16, torch.bfloat16
AttentionFunction = Callable[[Tensor, Tensor, Tensor, Tensor | PackedMask], Tensor]


def scaled_dot_product_attention(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | PackedMask,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1; `mask` is True where a query may attend."""
    return attention_weights(query, key, mask).to(value.dtype) @ value


def attention_weights(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | PackedMask,
) -> Float[Tensor, "batch heads query_len key_len"]:
    """The softmax of equation 1: how much each query takes of each key's value."""
    if isinstance(mask, PackedMask):
        mask = mask.dense()
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def fused_attention(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | PackedMask,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1 by PyTorch's fused kernels: the same to rounding, no matrix of weights in memory."""
    if isinstance(mask, PackedMask):
        if query.is_cuda and query.dtype in _FLASH_TYPES:
            return _flash_attention(query, key, value, mask)
        mask = mask.dense()
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _flash_attention(query: Tensor, key: Tensor, value: Tensor, mask: PackedMask) -> Tensor:
    """Equation 1 within each sentence, by a kernel that takes sentences of any lengths in a row."""
    queries, keys, values = (heads[0].transpose(0, 1) for heads in (query, key, value))
    attended = varlen_attn(  # (tokens, heads, width)
        queries,
        keys,
        values,
        mask.queries.bounds,
        mask.keys.bounds,
        mask.queries.longest,
        mask.keys.longest,
        window_size=(-1, 0) if mask.causal else (-1, -1),
    )
    assert isinstance(attended, Tensor)
    return attended.transpose(0, 1)[None]


class _MultiHead(nn.Module):
    """What self- and cross-attention share: heads, widths, and the projection of the joined heads (3.2.2)."""

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int, bias: bool) -> None:
        super().__init__()
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        self.attend: AttentionFunction = scaled_dot_product_attention

    def _heads(self, packed: Tensor, *widths: int) -> list[Tensor]:
        """Cut `packed` (batch, len, heads * sum(widths)) into tensors (batch, heads, len, width)."""
        parts = packed.split([self.num_heads * width for width in widths], dim=-1)
        return [
            part.unflatten(-1, (self.num_heads, width)).transpose(1, 2)
            for part, width in zip(parts, widths, strict=True)
        ]

    def _join(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | PackedMask) -> Tensor:
        attended = self.attend(query, key, value, mask)  # (batch, heads, query_len, d_v)
        joined: Tensor = self.output(attended.transpose(1, 2).flatten(2))  # (batch, query_len, d_model)
        return joined


class SelfAttention(_MultiHead):
    """Multi-head attention of a sequence to itself, its three projections packed in one matrix."""

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int, bias: bool) -> None:
        super().__init__(d_model, num_heads, d_k, d_v, bias)
        # Deviation: the paper's formula has no biases, but its parameter counts need them; see docs/paper.md.
        self.query_key_value = nn.Linear(d_model, num_heads * (2 * d_k + d_v), bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch query_len d_model"],
        mask: Bool[Tensor, "#batch 1 #query_len query_len"] | PackedMask,
    ) -> Float[Tensor, "batch query_len d_model"]:
        """Each position's mixture of the positions that `mask` opens to it."""
        query, key, value = self.project(x)
        return self._join(query, key, value, mask)

    def project(self, x: Float[Tensor, "batch query_len d_model"]) -> list[Tensor]:
        """Queries, keys and values of every head, (batch, heads, query_len, d_k or d_v) each."""
        return self._heads(self.query_key_value(x), self.d_k, self.d_k, self.d_v)


class CrossAttention(_MultiHead):
    """Multi-head attention of a target to a memory, the memory's two projections packed in one matrix."""

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int, bias: bool) -> None:
        super().__init__(d_model, num_heads, d_k, d_v, bias)
        self.query = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.key_value = nn.Linear(d_model, num_heads * (d_k + d_v), bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        memory: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #target_len source_len"] | PackedMask,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Each target position's mixture of the memory's positions that `mask` opens to it."""
        key, value = self.project_memory(memory)
        return self._join(self.project_query(x), key, value, mask)

    def project_query(self, x: Float[Tensor, "batch target_len d_model"]) -> Tensor:
        """Queries of every head, (batch, heads, target_len, d_k)."""
        return self._heads(self.query(x), self.d_k)[0]

    def project_memory(self, memory: Float[Tensor, "batch source_len d_model"]) -> list[Tensor]:
        """Keys and values of every head, (batch, heads, source_len, d_k or d_v)."""
        return self._heads(self.key_value(memory), self.d_k, self.d_v)
