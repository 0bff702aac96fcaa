"""Restricted self-attention (paper 4): to a neighbourhood of each position, at a cost linear in length."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import Reach
from allyouneed.model.masks import DenseAttention, ImplicitMask, Positions

_SMALLEST_BLOCK = 32
"""Minimum number of queries per block; smaller blocks spend most of their time on the overhead of calls."""


@dataclass(frozen=True)
class NeighbourhoodMask(ImplicitMask):
    """A position may attend to tokens within reach, before and after it.

    It may always attend to itself, so that padding has an open position, too.

    Attributes:
        real: True at tokens, False at padding.
        reach: Numbers of positions before and after a query.
    """

    real: Bool[Tensor, "batch length"]
    reach: Reach

    @property
    def _block(self) -> int:
        """Number of queries per block, the fastest on a CPU: see docs/decisions."""
        return max(*self.reach, _SMALLEST_BLOCK)

    @property
    def _window(self) -> int:
        """Number of keys per block: its own positions and those within reach of its ends."""
        return self.reach.before + self._block + self.reach.after

    @property
    def _num_blocks(self) -> int:
        """Number of blocks that cover all positions; the last may be incomplete."""
        return -(-self.real.size(1) // self._block)

    def dense(self) -> Bool[Tensor, "batch 1 length length"]:
        """An entry for every query and key."""
        positions = torch.arange(self.real.size(1), device=self.real.device)
        return self._open(positions[:, None], positions, self.real[:, None])[:, None]

    def positions(self) -> Positions:
        """Positions from 0, of queries and of keys."""
        positions = torch.arange(self.real.size(1), device=self.real.device)[None]
        return Positions(positions, positions)

    @cached_property
    def _positions_of_blocks(self) -> Positions:
        """Positions of each block's queries and of the keys of its window, sentence by sentence."""
        first = torch.arange(self._num_blocks, device=self.real.device)[:, None] * self._block
        query = first + torch.arange(self._block, device=self.real.device)
        key = first - self.reach.before + torch.arange(self._window, device=self.real.device)
        batch = self.real.size(0)
        return Positions(query.repeat(batch, 1), key.repeat(batch, 1))

    @cached_property
    def _of_blocks(self) -> Bool[Tensor, "blocks 1 block window"]:
        """An entry for every query of each block and every key of its window, sentence by sentence."""
        query, key = self._positions_of_blocks
        real = self._around(self.real).unfold(1, self._window, self._block).flatten(0, 1)  # (blocks, window)
        return self._open(query[:, :, None], key[:, None], real[:, None])[:, None]

    def attend(
        self,
        form: DenseAttention,
        query: Float[Tensor, "batch heads length d_k"],
        key: Float[Tensor, "batch heads length d_k"],
        value: Float[Tensor, "batch heads length d_v"],
    ) -> Float[Tensor, "batch heads length d_v"]:
        """Attention in blocks of neighbouring queries, each with the keys in its window.

        No tensor, the mask included, is as large as the square of the length.
        """
        if query.size(2) <= self._window:  # a single block would compute at least as much
            return form(query, key, value, self.dense(), self.positions())
        return self._whole(
            form(
                self._queries(query),
                self._windows(key),
                self._windows(value),
                self._of_blocks,
                self._positions_of_blocks,
            )
        )

    def _queries(self, x: Float[Tensor, "batch heads length d_k"]) -> Float[Tensor, "blocks heads block d_k"]:
        """Queries, block by block; zeros fill the last block of a sentence."""
        room = self._num_blocks * self._block - x.size(2)
        rows = functional.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, room))
        blocks: Tensor = rows.unflatten(1, (self._num_blocks, self._block))
        return blocks.flatten(0, 1).transpose(1, 2)

    def _windows(
        self, x: Float[Tensor, "batch heads length d_v"]
    ) -> Float[Tensor, "blocks heads window d_v"]:
        """The keys or values in the window of each block, with zeros beyond the ends of a sentence."""
        rows = self._around(x.transpose(1, 2))
        return rows.unfold(1, self._window, self._block).flatten(0, 1).transpose(2, 3)

    def _whole(
        self, attended: Float[Tensor, "blocks heads block d_v"]
    ) -> Float[Tensor, "batch heads length d_v"]:
        """Join the outputs of the blocks into sentences again."""
        blocks: Tensor = attended.transpose(1, 2).unflatten(0, (-1, self._num_blocks))
        return blocks.flatten(1, 2)[:, : self.real.size(1)].transpose(1, 2)

    def _around(self, rows: Tensor) -> Tensor:
        """Pad sentences (batch, length, ..) at both ends with the zeros that the windows need."""
        after = self._num_blocks * self._block - rows.size(1) + self.reach.after
        return functional.pad(rows, (*(0, 0) * (rows.dim() - 2), self.reach.before, after))

    def _open(
        self, query: Int[Tensor, "*queries"], key: Int[Tensor, "*keys"], real: Bool[Tensor, "*reals"]
    ) -> Tensor:
        near = (query - key <= self.reach.before) & (key - query <= self.reach.after)
        return near & real | (query == key)
