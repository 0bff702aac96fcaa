"""Sentences without padding, joined into a single row, as flash attention takes them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import Reach
from allyouneed.hardware.memory import has_pinned_memory
from allyouneed.model.masks import ImplicitMask, Positions
from allyouneed.symbols import PADDING


@dataclass(frozen=True)
class PackedIds:
    """The token ids of several sentences in one row.

    Attributes:
        ids: All tokens: (1, tokens).
        positions: Position of each token in its sentence, from 0.
        bounds: Start of each sentence and end of the last; sentence i is `bounds[i]:bounds[i + 1]`: int32.
        longest: Number of tokens in the longest sentence.
    """

    ids: Int[Tensor, "1 tokens"]
    positions: Int[Tensor, " tokens"]
    bounds: Int[Tensor, " bounds"]
    longest: int

    def sentences(self) -> Int[Tensor, " tokens"]:
        """The number of each token's sentence, from 1."""
        return (self.positions == 0).cumsum(0)


def pack(padded: Int[Tensor, "batch length"], device: torch.device) -> PackedIds:
    """Pack sentences that are padded at the end, and send them from main memory without waiting for it."""
    real = padded != PADDING
    lengths = real.sum(1)
    positions = torch.arange(padded.size(1)).expand_as(padded)[real]
    bounds = functional.pad(lengths.cumsum(0), (1, 0)).int()  # the type that flash attention expects
    return PackedIds(
        ids=sent(padded[real][None], device),
        positions=sent(positions, device),
        bounds=sent(bounds, device),
        longest=int(lengths.max()),
    )


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Send a tensor from main memory to `device` without waiting for an accelerator."""
    return (
        tensor.pin_memory().to(device, non_blocking=True) if has_pinned_memory(device) else tensor.to(device)
    )


@dataclass(frozen=True)
class PackedMask(ImplicitMask):
    """A query may attend to the keys of its own sentence; if causal, to those at and before its position.

    If `reach` is set, it may attend only to keys within that reach.
    """

    queries: PackedIds
    keys: PackedIds
    causal: bool = False
    reach: Reach | None = None

    def dense(self) -> Bool[Tensor, "1 1 query_tokens key_tokens"]:
        """The same mask with an entry for every query and key."""
        open_ = self.queries.sentences()[:, None] == self.keys.sentences()
        if self.causal:
            open_ &= self.queries.positions[:, None] >= self.keys.positions
        if self.reach is not None:
            back = self.queries.positions[:, None] - self.keys.positions
            open_ &= (back <= self.reach.before) & (-back <= self.reach.after)
        return open_[None, None]

    def positions(self) -> Positions:
        """The positions of queries and keys, each in its own sentence."""
        return Positions(self.queries.positions[None], self.keys.positions[None])
