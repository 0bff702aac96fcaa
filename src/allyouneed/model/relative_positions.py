"""Positions in self-attention itself, in place of encodings that are added to the embeddings.

A scheme sees the positions of queries and keys in every form of attention: padded, packed, restricted to a
neighbourhood, or from a cache. It may turn queries and keys, add a bias to their scores, and add to what the
weights mix. Cross-attention has no scheme: positions of source and target are not comparable.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig
from allyouneed.model.masks import Positions
from allyouneed.model.position_tables import alibi_slopes, rotary_frequencies


class RelativePositions(nn.Module):
    """The neutral scheme, whose methods a scheme overrides."""

    only_turns = False
    """Whether `turn` is all that the scheme does, so that faster forms of equation 1 may compute the rest."""

    def turn(
        self, x: Float[Tensor, "batch heads length d_k"], positions: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch heads length d_k"]:
        """Queries or keys as functions of their positions; keys are cached as they are returned."""
        return x

    def bias(
        self, query: Float[Tensor, "batch heads query_len d_k"], positions: Positions
    ) -> Float[Tensor, "#batch heads query_len key_len"] | float:
        """Summand of the scores before the softmax."""
        return 0.0

    def found(
        self, weights: Float[Tensor, "batch heads query_len key_len"], positions: Positions
    ) -> Float[Tensor, "batch heads query_len d_v"] | float:
        """Summand of the mixture of values."""
        return 0.0


class ExactFloats(nn.Module):
    """Constants in float32 that stay exact in a module whose weights become bfloat16."""

    bits: Tensor

    def __init__(self, values: Float[Tensor, " number"]) -> None:
        super().__init__()
        self.register_buffer("bits", values.view(torch.int32), persistent=False)

    def forward(self) -> Float[Tensor, " number"]:
        """The constants, on the device of the module."""
        return self.bits.view(torch.float32)


def turn_pairs(
    x: Float[Tensor, "batch heads length d_k"],
    positions: Int[Tensor, "#batch length"],
    frequencies: Float[Tensor, " pairs"],
) -> Float[Tensor, "batch heads length d_k"]:
    """Turn components 2i and 2i + 1 by the angle `positions * frequencies[i]`."""
    angle = (positions[:, None, :, None] * frequencies).to(torch.float32)
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cosine, sine = angle.cos(), angle.sin()
    turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1)
    return turned.flatten(-2).to(x.dtype)


class RotaryPositions(RelativePositions):
    """Rotary embeddings (Su et al. 2021, arXiv:2104.09864): dot products depend on the offset alone.

    Components 2i and 2i + 1 of queries and keys are turned by the angle `pos / 10000^(2i / d_k)`, the angle
    of the paper's sinusoids.
    """

    only_turns = True

    def __init__(self, d_k: int) -> None:
        super().__init__()
        self.frequencies = ExactFloats(torch.from_numpy(rotary_frequencies(d_k)))
        self.turn_pairs: Callable[[Tensor, Tensor, Tensor], Tensor] = turn_pairs
        """This function, or a faster implementation."""

    def turn(
        self, x: Float[Tensor, "batch heads length d_k"], positions: Int[Tensor, "#batch length"]
    ) -> Float[Tensor, "batch heads length d_k"]:
        """Each pair of components, turned by its angle."""
        return self.turn_pairs(x, positions, self.frequencies())


class LinearBiases(RelativePositions):
    """ALiBi (Press et al. 2022, arXiv:2108.12409): scores fall linearly with the distance.

    Head h of n loses `2^(-8h / n)` per position, h from 1. In the encoder, distances count in both directions
    alike.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = ExactFloats(torch.from_numpy(alibi_slopes(num_heads)))

    def bias(
        self, query: Float[Tensor, "batch heads query_len d_k"], positions: Positions
    ) -> Float[Tensor, "#batch heads query_len key_len"]:
        """`-slope * |offset|`."""
        slopes: Tensor = self.slopes()
        return -slopes[:, None, None] * positions.offsets().abs()[:, None]


class ClippedOffsets(RelativePositions):
    """Relative position representations (Shaw et al. 2018, arXiv:1803.02155).

    Each offset from -k to k has a learned vector that is added to keys (equation 4 there) and one that is
    added to values (equation 3), shared by all heads; offsets farther away have those of -k and k.
    """

    def __init__(self, d_k: int, d_v: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, d_k))
        self.values = nn.Parameter(torch.empty(2 * max_distance + 1, d_v))

    def draw(self) -> None:
        """Draw both matrices, Glorot uniform."""
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def bias(
        self, query: Float[Tensor, "batch heads query_len d_k"], positions: Positions
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """`q . a / sqrt(d_k)` with the vector a of the offset."""
        of_offsets = (query / math.sqrt(query.size(-1))) @ self.keys.T  # (batch, heads, query_len, 2k + 1)
        buckets = self._buckets(positions)[:, None]
        return of_offsets.gather(-1, buckets.expand(*of_offsets.shape[:3], -1))

    def found(
        self, weights: Float[Tensor, "batch heads query_len key_len"], positions: Positions
    ) -> Float[Tensor, "batch heads query_len d_v"]:
        """The vectors of all offsets, mixed by the weights of their keys."""
        buckets = self._buckets(positions)[:, None].expand_as(weights)
        of_offsets = weights.new_zeros(*weights.shape[:3], self.values.size(0))
        return of_offsets.scatter_add(-1, buckets, weights) @ self.values.to(weights.dtype)

    def _buckets(self, positions: Positions) -> Int[Tensor, "#batch query_len key_len"]:
        return positions.offsets().clamp(-self.max_distance, self.max_distance) + self.max_distance


SCHEMES: dict[str, Callable[[ModelConfig], RelativePositions]] = {
    "rotary": lambda config: RotaryPositions(config.head_widths[0]),
    "alibi": lambda config: LinearBiases(config.num_heads),
    "relative": lambda config: ClippedOffsets(*config.head_widths, config.max_distance),
}
"""`ModelConfig.positions` -> the scheme of each self-attention."""
