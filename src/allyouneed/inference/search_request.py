"""The input of a search."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchRequest:
    """One source to decode, with its limits."""

    key: int
    """The caller's identifier of the sentence."""
    source: Sequence[int]
    """Token ids with the end symbol."""
    max_length: int
    """Maximum output length in tokens, end symbol included, at least 1. A hypothesis still alive at that
    length is finished without an end symbol."""
    prefix: Sequence[int] = ()
    """Token ids that every output begins with, fewer than `max_length`."""
    sample: int = 0
    """Number of this sample among the samples of its source (sampling only)."""
