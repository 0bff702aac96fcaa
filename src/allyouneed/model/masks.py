"""Attention masks: True where a query may attend, and at least one True in every row (paper 3.2.3)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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


def padding_mask(ids: Int[Tensor, "batch key_len"]) -> Bool[Tensor, "batch 1 1 key_len"]:
    """Open at every token; the first position is open even in a sequence that is all padding."""
    mask = ids != PADDING
    mask[:, 0] = True
    return mask[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "1 1 target_len target_len"]:
    """Open at and before each query's own position."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
