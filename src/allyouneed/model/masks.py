"""Attention masks (paper 3.2.3), and sentences that are packed in a row without padding.

A mask is True where a query may attend; every row of it has at least one True.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import Reach
from allyouneed.hardware.memory import has_pinned_memory
from allyouneed.symbols import PADDING

DenseAttention = Callable[[Tensor, Tensor, Tensor, Tensor, "Positions | None"], Tensor]
"""An attention function: query, key, value, a mask with an entry per query and key, positions -> mixtures."""


class Positions(NamedTuple):
    """Positions of queries and keys in their sentences, from 0."""

    query: Int[Tensor, "#batch query_len"]
    key: Int[Tensor, "#batch key_len"]

    def offsets(self) -> Int[Tensor, "#batch query_len key_len"]:
        """Position of each key minus the position of each query."""
        return self.key[:, None, :] - self.query[:, :, None]


class ImplicitMask(ABC):
    """A mask that stores no entry per query and key: its memory is linear in their number."""

    @abstractmethod
    def dense(self) -> Bool[Tensor, "batch 1 query_len key_len"]:
        """The same mask with an entry for every query and key."""

    @abstractmethod
    def positions(self) -> Positions:
        """The positions of queries and keys, those of `dense`."""

    def attend(
        self,
        form: DenseAttention,
        query: Float[Tensor, "batch heads query_len d_k"],
        key: Float[Tensor, "batch heads key_len d_k"],
        value: Float[Tensor, "batch heads key_len d_v"],
    ) -> Float[Tensor, "batch heads query_len d_v"]:
        """Each query's mixture of the values that this mask opens to it, computed by `form`."""
        return form(query, key, value, self.dense(), self.positions())


def real_positions(source: Tensor) -> Bool[Tensor, "batch length"]:
    """True at ids (batch, length), or at vectors (batch, length, width), that are no padding."""
    return source[..., 0].isnan().logical_not() if source.dim() > 2 else source != PADDING


def padding_mask(source: Tensor) -> Bool[Tensor, "batch 1 1 key_len"]:
    """Open at every token; the first position is open even in a sequence that is all padding."""
    mask = real_positions(source)
    mask[:, 0] = True
    return mask[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "1 1 target_len target_len"]:
    """Open at and before each query's own position."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


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


class Filling(NamedTuple):
    """Sentences of padding that bring packed ones to a fixed size; empty sentences follow them."""

    lengths: Int[Tensor, " fillers"]
    """Number of tokens in each."""
    num_sentences: int
    """Number of sentences in all."""
    longest: int
    """Maximum number of tokens in a sentence."""


def pack(
    padded: Int[Tensor, "batch length"], device: torch.device, filling: Filling | None = None
) -> PackedIds:
    """Pack sentences that are padded at the end, and send them from main memory without waiting for it."""
    real = padded != PADDING
    lengths, ids = real.sum(1), padded[real]
    positions = torch.arange(padded.size(1)).expand_as(padded)[real]
    longest = int(lengths.max())
    if filling is not None:
        ids = functional.pad(ids, (0, int(filling.lengths.sum())), value=PADDING)
        positions = torch.cat((positions, *map(torch.arange, filling.lengths.tolist())))
        lengths, longest = torch.cat((lengths, filling.lengths)), filling.longest
        lengths = functional.pad(lengths, (0, filling.num_sentences - len(lengths)))
    bounds = functional.pad(lengths.cumsum(0), (1, 0)).int()  # the type that flash attention expects
    return PackedIds(sent(ids[None], device), sent(positions, device), sent(bounds, device), longest)


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
