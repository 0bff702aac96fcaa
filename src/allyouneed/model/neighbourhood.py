"""Restricted self-attention (paper 4): to a neighbourhood of each position, at a cost linear in length."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.model.masks import DenseAttention, ImplicitMask, Positions

_SMALLEST_BLOCK = 32
"""Queries: with fewer at once the time goes into calls, however few keys each of them has."""


@dataclass(frozen=True)
class NeighbourhoodMask(ImplicitMask):
    """A position may attend to tokens at most `reach` positions away; if causal, to none after it.

    To itself it always may, so that padding has an open position, too.

    Attributes:
        real: Where a token stands, and not padding.
        reach: Half the paper's r.
        causal: Whether positions after a query are closed to it.
    """

    real: Bool[Tensor, "batch length"]
    reach: int
    causal: bool = False

    @property
    def _reach_ahead(self) -> int:
        """Positions after a query that are near it."""
        return 0 if self.causal else self.reach

    @property
    def _block(self) -> int:
        """Queries that are computed at once, as many as fastest on a CPU: see docs/decisions."""
        return max(self.reach, _SMALLEST_BLOCK)

    @property
    def _window(self) -> int:
        """Keys of a block: its own positions and those near its ends."""
        return self.reach + self._block + self._reach_ahead

    @property
    def _num_blocks(self) -> int:
        """Number of blocks that hold all positions; the last may not be full."""
        return -(-self.real.size(1) // self._block)

    def dense(self) -> Bool[Tensor, "batch 1 length length"]:
        """A value for every query and key."""
        positions = torch.arange(self.real.size(1), device=self.real.device)
        return self._open(positions[:, None], positions, self.real[:, None])[:, None]

    def positions(self) -> Positions:
        """Positions from 0, of queries and of keys."""
        positions = torch.arange(self.real.size(1), device=self.real.device)[None]
        return Positions(positions, positions)

    @cached_property
    def _positions_of_blocks(self) -> Positions:
        """The positions of each block's queries, and of the keys of its window, batch by batch."""
        first = torch.arange(self._num_blocks, device=self.real.device)[:, None] * self._block
        query = first + torch.arange(self._block, device=self.real.device)
        key = first - self.reach + torch.arange(self._window, device=self.real.device)
        batch = self.real.size(0)
        return Positions(query.repeat(batch, 1), key.repeat(batch, 1))

    @cached_property
    def _of_blocks(self) -> Bool[Tensor, "blocks 1 block window"]:
        """A value for every query of each block and every key of its window, batch by batch."""
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
        """Attention by blocks of neighbouring queries, each with the keys that are near it.

        Nothing as large as the square of the length is made, the mask included.
        """
        if query.size(2) <= self._window:  # all that a single block would compute, or less
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
        """Queries, block by block; the last block of a sentence is filled up with zeros."""
        room = self._num_blocks * self._block - x.size(2)
        rows = functional.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, room))
        blocks: Tensor = rows.unflatten(1, (self._num_blocks, self._block))
        return blocks.flatten(0, 1).transpose(1, 2)

    def _windows(
        self, x: Float[Tensor, "batch heads length d_v"]
    ) -> Float[Tensor, "blocks heads window d_v"]:
        """The keys or values of each block, with zeros where there are none."""
        rows = self._around(x.transpose(1, 2))
        return rows.unfold(1, self._window, self._block).flatten(0, 1).transpose(2, 3)

    def _whole(
        self, attended: Float[Tensor, "blocks heads block d_v"]
    ) -> Float[Tensor, "batch heads length d_v"]:
        """What the queries of all blocks have found, sentence by sentence again."""
        blocks: Tensor = attended.transpose(1, 2).unflatten(0, (-1, self._num_blocks))
        return blocks.flatten(1, 2)[:, : self.real.size(1)].transpose(1, 2)

    def _around(self, rows: Tensor) -> Tensor:
        """Sentences (batch, length, ..) with what windows need before and after them."""
        after = self._num_blocks * self._block - rows.size(1) + self._reach_ahead
        return functional.pad(rows, (*(0, 0) * (rows.dim() - 2), self.reach, after))

    def _open(
        self, query: Int[Tensor, "*queries"], key: Int[Tensor, "*keys"], real: Bool[Tensor, "*reals"]
    ) -> Tensor:
        near = (query - key <= self.reach) & (key - query <= self._reach_ahead)
        return near & real | (query == key)
