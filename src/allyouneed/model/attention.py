"""Attention (paper 3.2): `Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V` and its multi-head form.

The function that compares queries with keys is exchangeable, because 3.2.1 discusses three of them.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.dropout import Dropout
from allyouneed.model.masks import ImplicitMask, PackedMask, Positions
from allyouneed.model.relative_positions import RelativePositions

_FLASH_TYPES = torch.float16, torch.bfloat16
AttentionFunction = Callable[[Tensor, Tensor, Tensor, Tensor | ImplicitMask], Tensor]
Compatibility = Callable[[Tensor, Tensor], Tensor]
"""Queries and keys of all heads -> scores before the softmax, (batch, heads, query_len, key_len)."""


def scaled_dot_products(
    query: Float[Tensor, "batch heads query_len d_k"], key: Float[Tensor, "batch heads key_len d_k"]
) -> Float[Tensor, "batch heads query_len key_len"]:
    """`q . k / sqrt(d_k)` (3.2.1)."""
    return (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)


def dot_products(
    query: Float[Tensor, "batch heads query_len d_k"], key: Float[Tensor, "batch heads key_len d_k"]
) -> Float[Tensor, "batch heads query_len key_len"]:
    """`q . k`, with a variance that grows with d_k: the problem that 3.2.1 describes."""
    return query @ key.transpose(-2, -1)


class AdditiveCompatibility(nn.Module):
    """`w . tanh(q + k)` with a learned w for each head: a network with one hidden layer (3.2.1).

    With `q = W x` and `k = U y` it is equation 6 of Bahdanau et al. 2015. Each head needs memory for
    queries x keys x d_k numbers at once.
    """

    def __init__(self, num_heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, d_k))

    def forward(
        self, query: Float[Tensor, "batch heads query_len d_k"], key: Float[Tensor, "batch heads key_len d_k"]
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The compatibility of every query with every key."""
        hidden = (query[:, :, :, None] + key[:, :, None]).tanh()  # (batch, heads, query_len, key_len, d_k)
        return (hidden @ self.weight[:, None, :, None])[..., 0]


COMPATIBILITIES: dict[str, Callable[[int, int], Compatibility]] = {
    "scaled": lambda num_heads, d_k: scaled_dot_products,
    "unscaled": lambda num_heads, d_k: dot_products,
    "additive": AdditiveCompatibility,
}
"""`ModelConfig.attention` -> factory of the compatibility function, from the number of heads and d_k."""


def scaled_dot_product_attention(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
    positions: Positions | None = None,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1; `mask` is True where a query may attend, `positions` are not used."""
    if isinstance(mask, ImplicitMask):
        return mask.attend(scaled_dot_product_attention, query, key, value)
    return attention_weights(query, key, mask).to(value.dtype) @ value


def attention_weights(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
    compatibility: Compatibility = scaled_dot_products,
) -> Float[Tensor, "batch heads query_len key_len"]:
    """The softmax of equation 1: the weight of each key's value for each query."""
    if isinstance(mask, ImplicitMask):
        mask = mask.dense()
    return compatibility(query, key).masked_fill(~mask, float("-inf")).softmax(dim=-1)


def fused_attention(
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
    value: Float[Tensor, "batch heads key_len d_v"],
    mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
    positions: Positions | None = None,
) -> Float[Tensor, "batch heads query_len d_v"]:
    """Equation 1 by PyTorch's fused kernels: equal up to rounding, without a weight matrix in memory."""
    if isinstance(mask, PackedMask) and query.is_cuda and query.dtype in _FLASH_TYPES:
        return _flash_attention(query, key, value, mask)
    if isinstance(mask, ImplicitMask):
        return mask.attend(fused_attention, query, key, value)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _flash_attention(query: Tensor, key: Tensor, value: Tensor, mask: PackedMask) -> Tensor:
    """Equation 1 within each sentence, by a kernel for packed sentences of different lengths."""
    from torch.nn.attention.varlen import varlen_attn  # imports torch.compile, which takes a second

    queries, keys, values = (heads[0].transpose(0, 1) for heads in (query, key, value))
    before, after = mask.reach or (-1, -1)  # no limit
    attended = varlen_attn(  # (tokens, heads, width)
        queries,
        keys,
        values,
        mask.queries.bounds,
        mask.keys.bounds,
        mask.queries.longest,
        mask.keys.longest,
        window_size=(before, 0 if mask.causal else after),
    )
    assert isinstance(attended, Tensor)
    return attended.transpose(0, 1)[None]


def positions_of(
    mask: Tensor | ImplicitMask,
    query: Float[Tensor, "batch heads query_len d_k"],
    key: Float[Tensor, "batch heads key_len d_k"],
) -> Positions:
    """The positions of queries and keys: those of an implicit mask, or else both from 0."""
    if isinstance(mask, ImplicitMask):
        return mask.positions()
    lengths = query.size(2), key.size(2)
    return Positions(*(torch.arange(length, device=query.device)[None] for length in lengths))


class SoftmaxAttention(nn.Module):
    """`dropout(softmax(compatibility(Q, K))) V`: equation 1 in its plain form, and its variants.

    The compatibilities are those of 3.2.1; dropout of the weights is in the paper's source, not in its text.

    Args:
        compatibility: Compares queries with keys.
        dropout: Rate of dropout of the weights.
        relative: Scheme of relative positions; self-attention only.
    """

    def __init__(
        self,
        compatibility: Compatibility = scaled_dot_products,
        dropout: float = 0.0,
        relative: RelativePositions | None = None,
    ) -> None:
        super().__init__()
        self.compatibility, self.dropout, self.relative = compatibility, Dropout(dropout), relative

    @property
    def is_equation_1(self) -> bool:
        """Whether this is equation 1 of turned queries and keys, which faster implementations compute too."""
        relative = self.relative is not None and not self.relative.only_turns
        return self.compatibility is scaled_dot_products and self.dropout.rate == 0 and not relative

    def weights(
        self,
        query: Float[Tensor, "batch heads query_len d_k"],
        key: Float[Tensor, "batch heads key_len d_k"],
        mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
        positions: Positions | None = None,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The weight of each key's value for each query, before dropout.

        By default, `positions` are those of an implicit mask, or else count from 0.
        """
        if self.relative is None:
            return attention_weights(query, key, mask, self.compatibility)
        positions = positions or positions_of(mask, query, key)
        opened = mask.dense() if isinstance(mask, ImplicitMask) else mask
        scores = self.compatibility(query, key) + self.relative.bias(query, positions)
        return scores.masked_fill(~opened, float("-inf")).softmax(dim=-1)

    def forward(
        self,
        query: Float[Tensor, "batch heads query_len d_k"],
        key: Float[Tensor, "batch heads key_len d_k"],
        value: Float[Tensor, "batch heads key_len d_v"],
        mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
        positions: Positions | None = None,
    ) -> Float[Tensor, "batch heads query_len d_v"]:
        """Each query's mixture of the values; see `weights` for `positions`."""
        if isinstance(mask, ImplicitMask):
            return mask.attend(self, query, key, value)
        weights: Tensor = self.dropout(self.weights(query, key, mask, positions))
        return self.mixture(weights, value, positions or positions_of(mask, query, key))

    def mixture(
        self,
        weights: Float[Tensor, "batch heads query_len key_len"],
        value: Float[Tensor, "batch heads key_len d_v"],
        positions: Positions,
    ) -> Float[Tensor, "batch heads query_len d_v"]:
        """The values mixed by weights."""
        weights = weights.to(value.dtype)
        mixed = weights @ value
        return mixed if self.relative is None else mixed + self.relative.found(weights, positions)


class _MultiHead(nn.Module):
    """Base of self- and cross-attention: heads, widths, and the projection of the joined heads (3.2.2)."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        bias: bool,
        plain: SoftmaxAttention | None = None,
    ) -> None:
        super().__init__()
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        self.plain = plain or SoftmaxAttention()
        self.attend: AttentionFunction | None = None
        """Faster implementation of the same function; None to use `plain`."""

    def _heads(self, packed: Tensor, *widths: int) -> list[Tensor]:
        """Cut `packed` (batch, len, heads * sum(widths)) into tensors (batch, heads, len, width)."""
        parts = packed.split([self.num_heads * width for width in widths], dim=-1)
        return [
            part.unflatten(-1, (self.num_heads, width)).transpose(1, 2)
            for part, width in zip(parts, widths, strict=True)
        ]

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | ImplicitMask) -> Tensor:
        return self.join((self.attend or self.plain)(query, key, value, mask))

    def join(
        self, attended: Float[Tensor, "batch heads query_len d_v"]
    ) -> Float[Tensor, "batch query_len d_model"]:
        """Concatenate the heads and project them."""
        joined: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return joined


class SelfAttention(_MultiHead):
    """Multi-head self-attention, with its three projections packed in one matrix."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        bias: bool,
        plain: SoftmaxAttention | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, d_k, d_v, bias, plain)
        # Deviation: the paper's formula has no biases, but its parameter counts need them; see docs/paper.md.
        self.query_key_value = nn.Linear(d_model, num_heads * (2 * d_k + d_v), bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch query_len d_model"],
        mask: Bool[Tensor, "#batch 1 #query_len query_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch query_len d_model"]:
        """Each position's mixture of the positions that `mask` opens to it."""
        positions = mask.positions().query if isinstance(mask, ImplicitMask) else None
        query, key, value = self.project(x, positions)
        return self._attend(query, key, value, mask)

    def project(
        self,
        x: Float[Tensor, "batch query_len d_model"],
        positions: Int[Tensor, "#batch query_len"] | None = None,
    ) -> list[Tensor]:
        """Queries, keys and values of every head, (batch, heads, query_len, d_k or d_v) each.

        `positions` are those of the rows of `x` in their sentence; by default from 0.
        """
        query, key, value = self._heads(self.query_key_value(x), self.d_k, self.d_k, self.d_v)
        if self.plain.relative is None:
            return [query, key, value]
        if positions is None:
            positions = torch.arange(x.size(1), device=x.device)[None]
        return [*(self.plain.relative.turn(part, positions) for part in (query, key)), value]


class CrossAttention(_MultiHead):
    """Multi-head attention to a memory, with the memory's two projections packed in one matrix."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int,
        d_v: int,
        bias: bool,
        plain: SoftmaxAttention | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, d_k, d_v, bias, plain)
        self.query = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.key_value = nn.Linear(d_model, num_heads * (d_k + d_v), bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        memory: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #target_len source_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Each target position's mixture of the memory's positions that `mask` opens to it."""
        key, value = self.project_memory(memory)
        return self._attend(self.project_query(x), key, value, mask)

    def project_query(self, x: Float[Tensor, "batch target_len d_model"]) -> Tensor:
        """Queries of every head, (batch, heads, target_len, d_k)."""
        return self._heads(self.query(x), self.d_k)[0]

    def project_memory(self, memory: Float[Tensor, "batch source_len d_model"]) -> list[Tensor]:
        """Keys and values of every head, (batch, heads, source_len, d_k or d_v)."""
        return self._heads(self.key_value(memory), self.d_k, self.d_v)
