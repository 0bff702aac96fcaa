"""Engines: what decodes. `native_engine` computes with the C kernels, `torch_engine` with PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from allyouneed.config.model import ModelConfig
from allyouneed.data.vectors import Vectors
from allyouneed.inference.search import Decoding
from allyouneed.inference.speculation import BlockCounts
from allyouneed.native.arrays import Float32

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder


BATCH_TOKENS = 8_192
"""Source tokens computed at once on a CPU, times the beam size; each worker has a batch of its own."""
_MOST_BATCH_TOKENS = 262_144
"""An accelerator has long been busy by then: thousands of hypotheses."""
SHORT_SOURCE, _OUTPUT_POSITIONS = 8, 64
"""A batch of short sources with long outputs, all in memory, needs most; shorter ones count as so long."""
_WHOLE = 1_024


def batch_tokens_within(num_bytes: int, config: ModelConfig, item_bytes: int) -> int:
    """Source tokens, times the beam size, that an accelerator with so much memory computes at once.

    Half of the memory is left to the weights, and to copies when sentences join and leave. `item_bytes` is
    the size of a number.
    """
    d_k, d_v = config.head_widths
    of_position = config.decoder_layers * config.num_heads * (d_k + d_v) * item_bytes
    of_logits = config.target_vocab_size * (item_bytes + 8)  # beside them, in float32: as read, and reduced
    of_token = (_OUTPUT_POSITIONS * of_position + of_logits) // SHORT_SOURCE
    return max(_WHOLE, min(_MOST_BATCH_TOKENS, num_bytes // 2 // of_token // _WHOLE * _WHOLE))


class Engine(ABC):
    """Starts decodings of a model, or of an ensemble."""

    config: ModelConfig
    """The architecture, that of the first model of an ensemble."""
    has_shortlist = False
    """Whether a shortlist restricts the target tokens."""
    student: "Engine | None" = None
    """A smaller model with the same vocabularies that proposes tokens in blockwise decoding."""

    @cached_property
    def block_counts(self) -> BlockCounts:
        """Counts of blockwise decoding so far."""
        return BlockCounts()

    @property
    @abstractmethod
    def models(self) -> "Sequence[EncoderDecoder]":
        """The models as PyTorch modules, which some engines build when they are asked for."""

    @property
    def max_positions(self) -> int | None:
        """Longest source or target, in tokens, that the model supports; None if there is no limit."""
        return self.config.most_positions

    @property
    def batch_tokens(self) -> int:
        """Source tokens that a worker computes at once by default, times the beam size."""
        return BATCH_TOKENS

    @property
    def shortest_source(self) -> int:
        """Number of tokens that each source counts for, at least, in batches of `batch_tokens`."""
        return 1

    @abstractmethod
    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding with `beam_size` hypotheses per sentence."""

    @abstractmethod
    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float32[np.ndarray, " target_tokens"]:
        """Log-probability of each target token, with all targets concatenated.

        Sources and targets have end symbols.
        """

    @property
    def aligns(self) -> bool:
        """Whether the models are Transformers, whose attention gives alignments."""
        return self.config.architecture == "transformer"

    @property
    def members(self) -> "Sequence[Engine]":
        """The engines that decode together."""
        return [self]

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The context in which the engine decodes, in any number of threads."""
        yield


def distinct(sources: Sequence[Sequence[int]]) -> tuple[list[Sequence[int]], list[int]]:
    """The distinct sources, and the index of each source among them; samples share a source."""
    places: dict[Sequence[int], int] = {}
    keys = (source if isinstance(source, Vectors) else tuple(source) for source in sources)
    of_each = [places.setdefault(key, len(places)) for key in keys]
    return list(places), of_each
