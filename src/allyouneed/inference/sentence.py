"""What is to be searched for."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """What a search has to do for one source."""

    key: int
    """By which the caller knows it."""
    source: Sequence[int]
    """Token ids with the end symbol."""
    max_length: int
    """The most tokens of an output, end symbol included, at least 1. Hypotheses alive at that length count
    as finished, without an end symbol."""
    prefix: Sequence[int] = ()
    """Token ids, fewer than `max_length`, with which every output begins."""
    sample: int = 0
    """Its number among the samples of its source, where outputs are drawn."""
