"""Tasks whose answers lie far back in a sequence, to see which networks carry information so far (section 4).

A position holds a symbol in each of several columns; a network sees the sum of their embeddings.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

NUM_ANSWERS = 16
"""Number of answers that are possible, all equally probable."""
NOT_ASKED = -100
"""The answer of a position that is not asked; PyTorch's losses ignore it."""
_NUM_KEYS = 64
"""Number of keys to draw from; more if a sequence has more."""
_KEYS_AT_ONCE = 4
"""Number of keys, all different, that a query of `joint` asks for: two to the power of it is NUM_ANSWERS."""


class Sequences(NamedTuple):
    """A batch of sequences."""

    symbols: Int[Tensor, "batch length columns"]
    answers: Int[Tensor, "batch length"]


class RecallTask(NamedTuple):
    """A task of a size n."""

    title: str
    """What n is the number of."""
    draw: Callable[[int, int, torch.Generator], Sequences]
    """n, number of sequences, source of randomness -> sequences of 2n positions, the later half asked."""
    vocabularies: Callable[[int], Sequence[int]]
    """n -> number of symbols in each column."""
    num_blocks: int
    """Blocks of the networks that learn it: as many as its answers take by one attention after another."""


def _back(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """What was n positions before?"""
    symbols = torch.randint(NUM_ANSWERS, (batch, 2 * n), generator=generator)
    answers = torch.cat([torch.full((batch, n), NOT_ASKED), symbols[:, :n]], 1)
    return Sequences(symbols.unsqueeze(-1), answers)


def _recall(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """Which value came with this key? Keys do not repeat, and each is asked once, in another order."""
    keys, values = _keys(n, batch, generator), torch.randint(NUM_ANSWERS, (batch, n), generator=generator)
    order = _orders(n, batch, generator)
    no_value, not_asked = torch.full_like(values, NUM_ANSWERS), torch.full_like(values, NOT_ASKED)
    pairs = torch.stack([keys, values], -1)
    queries = torch.stack([keys.gather(1, order), no_value], -1)
    return Sequences(torch.cat([pairs, queries], 1), torch.cat([not_asked, values.gather(1, order)], 1))


def _joint(n: int, batch: int, generator: torch.Generator) -> Sequences:
    """Which values, 0 or 1, came with these four keys? All four make one answer, in their order."""
    keys, values = _keys(n, batch, generator), torch.randint(2, (batch, n), generator=generator)
    asked = _orders(n, batch * n, generator)[:, :_KEYS_AT_ONCE].view(batch, n, _KEYS_AT_ONCE)
    no_value, not_asked = torch.full_like(values, 2), torch.full_like(values, NOT_ASKED)
    no_key = torch.full_like(keys, max(n, _NUM_KEYS))
    pairs = torch.stack([keys, *[no_key] * (_KEYS_AT_ONCE - 1), values], -1)
    queries = torch.stack([*(keys.gather(1, places) for places in asked.unbind(-1)), no_value], -1)
    bits = [values.gather(1, places) << number for number, places in enumerate(asked.unbind(-1))]
    answers = torch.stack(bits).sum(0)
    return Sequences(torch.cat([pairs, queries], 1), torch.cat([not_asked, answers], 1))


def _keys(n: int, batch: int, generator: torch.Generator) -> Int[Tensor, "batch n"]:
    """Different keys for each sequence."""
    return _orders(max(n, _NUM_KEYS), batch, generator)[:, :n]


def _orders(n: int, batch: int, generator: torch.Generator) -> Int[Tensor, "batch n"]:
    """An order of n things for each sequence."""
    return torch.rand(batch, n, generator=generator).argsort(1)


TASKS = {
    "back": RecallTask("positions back", _back, lambda n: [NUM_ANSWERS], 2),
    "recall": RecallTask("keys with values", _recall, lambda n: [max(n, _NUM_KEYS), NUM_ANSWERS + 1], 2),
    "joint": RecallTask(
        "keys with values, four asked at once",
        _joint,
        lambda n: [*[max(n, _NUM_KEYS) + 1] * _KEYS_AT_ONCE, 3],
        1,
    ),
}
"""Name -> task."""
