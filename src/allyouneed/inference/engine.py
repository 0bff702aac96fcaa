"""Engines: what decodes. `native_engine` computes with the C kernels, `torch_engine` with PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from allyouneed.config.model import ModelConfig
from allyouneed.inference.search import Decoding
from allyouneed.native.arrays import Float32

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder


class Engine(ABC):
    """Starts decodings of a model, or of an ensemble."""

    config: ModelConfig
    """The architecture, that of the first model of an ensemble."""

    @property
    @abstractmethod
    def models(self) -> "Sequence[EncoderDecoder]":
        """The models as PyTorch modules, which some engines build when they are asked for."""

    @property
    def max_positions(self) -> int | None:
        """Longest source or target, in tokens, that the model supports; None if there is no limit."""
        return self.config.max_positions if self.config.positions == "learned" else None

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

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The context in which the engine decodes, in any number of threads."""
        yield


def distinct(sources: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The distinct sources, and the index of each source among them; samples share a source."""
    places: dict[tuple[int, ...], int] = {}
    of_each = [places.setdefault(tuple(source), len(places)) for source in sources]
    return list(places), of_each
