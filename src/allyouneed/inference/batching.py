"""Limits on the work that is computed at once, and how busy workers are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from allyouneed.inference.search_plan import SearchPlan


@dataclass(frozen=True)
class Batching:
    """Limits on the work computed at once."""

    tokens: int | None = 8_192
    """Maximum source tokens per worker, padding and end symbols included, times the beam size."""
    size: int | None = None
    """Maximum sentences per worker."""
    workers: int = 1
    """Number of threads, each decoding its own batches."""
    window_sentences: int = 4_096
    """Number of sources, or samples, that are read ahead and sorted by length; bounds the memory."""


class Room:
    """What a worker can take in addition.

    Args:
        batching: Limits.
        sizes: Number of sentences, and length of the longest, that the worker has of each plan.
    """

    def __init__(self, batching: Batching, sizes: Mapping[SearchPlan, tuple[int, int]]) -> None:
        self._batching, self._sizes = batching, sizes

    def admits(self, plan: SearchPlan, length: int) -> bool:
        """Whether there is room for a search of a source of this length, which then is taken."""
        num, longest = self._sizes.get(plan, (0, 0))
        sizes = {**self._sizes, plan: (num + 1, max(longest, length))}
        if self._sizes:
            tokens = sum(num * longest * plan.beam_size for plan, (num, longest) in sizes.items())
            if self._batching.tokens is not None and tokens > self._batching.tokens:
                return False
            if self._batching.size is not None and sum(n for n, _ in sizes.values()) > self._batching.size:
                return False
        self._sizes = sizes
        return True


class Load(NamedTuple):
    """How busy workers are."""

    num_waiting: int
    """Amount of work that is not done, in tokens or another unit."""
    num_done: int
    """Amount of work done since the start."""
    seconds_worked: float
    """Time that the average worker has worked since the start."""
    num_idle: int
    """Number of workers that have nothing to do."""
