"""Positional encodings (paper 3.5)."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from allyouneed.model.masks import sent
from allyouneed.model.position_tables import SINUSOIDS, sinusoids
from allyouneed.model.sizes import NUM_SPACES

_SHORTEST_TABLE = 512


class SinusoidalPositions(nn.Module):
    """Sinusoidal encodings in a table that grows with the longest sequence seen and is not a parameter."""

    table: Tensor

    def __init__(self, d_model: int, encode: Callable[[int, int], NDArray[np.float32]] = sinusoids) -> None:
        super().__init__()
        self.d_model, self._encode = d_model, encode
        self.register_buffer("table", torch.from_numpy(encode(0, d_model)), persistent=False)

    def forward(self, length: int) -> Float[Tensor, "{length} d_model"]:
        """The encodings of the first positions."""
        table = self.table  # another thread may replace it with a longer or shorter one
        if length > table.size(0):
            longer = torch.from_numpy(self._encode(max(2 * length, _SHORTEST_TABLE), self.d_model))
            self.table = table = sent(longer.to(table.dtype), table.device)
        return table[:length]


class LearnedPositions(nn.Module):
    """One learned vector per position (Table 3, row E)."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, length: int) -> Float[Tensor, "{length} d_model"]:
        """The encodings of the first positions; raises ValueError if fewer are learned."""
        if length > self.weight.size(0):
            raise ValueError(f"{length} positions wanted, {self.weight.size(0)} learned")
        return self.weight[:length]


class NoEncodings(nn.Module):
    """Zeros, for models whose self-attention sees positions by itself."""

    zeros: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("zeros", torch.zeros(d_model), persistent=False)

    def forward(self, length: int) -> Float[Tensor, "{length} d_model"]:
        """A row of zeros for each position."""
        return self.zeros.expand(length, -1)


def _sinusoidal(
    encode: Callable[[int, int], NDArray[np.float32]],
) -> Callable[[int, int], SinusoidalPositions]:
    return lambda d_model, _: SinusoidalPositions(d_model, encode)


Encodings = SinusoidalPositions | LearnedPositions | NoEncodings
ENCODINGS: dict[str, Callable[[int, int], Encodings]] = {
    **{kind: _sinusoidal(encode) for kind, encode in SINUSOIDS.items()},
    "learned": lambda d_model, max_positions: LearnedPositions(max_positions, d_model),
}
"""`ModelConfig.positions` -> the encodings, made from d_model and the number of positions."""


def build_positions(kind: str, d_model: int, max_positions: int) -> Encodings:
    """The encodings that `ModelConfig.positions` names; none if it names a scheme of self-attention."""
    return ENCODINGS[kind](d_model, max_positions) if kind in ENCODINGS else NoEncodings(d_model)


class TargetSpace(nn.Module):
    """Positional encodings plus a learned vector for the target language, the same at all positions.

    The authors' code of 2017 has a table of such vectors; training on one task uses only one of them.
    """

    def __init__(self, positions: Encodings, d_model: int) -> None:
        super().__init__()
        self.positions = positions
        self.spaces = nn.Parameter(torch.empty(NUM_SPACES, d_model))

    def forward(self, length: int) -> Float[Tensor, "{length} d_model"]:
        """The vectors to add to the embeddings of the first positions."""
        encodings: Tensor = self.positions(length)
        return encodings + self.spaces[0]
