"""Limits on the work that is computed at once."""

from dataclasses import dataclass


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
