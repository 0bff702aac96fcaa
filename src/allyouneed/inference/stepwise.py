"""Decoding with stepwise models, whose state per hypothesis has bounded size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from allyouneed.inference.engine import distinct
from allyouneed.inference.projection import FullProjection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates
from allyouneed.inference.torch_engine import TorchEngine, pad
from allyouneed.inference.torch_selection import TensorDecoding
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model.encoder_decoder import Memory, State, StepwiseModel
from allyouneed.model.masks import sent


class StepwiseEngine(TorchEngine):
    """Starts decodings of a stepwise model, as `TorchEngine` does for a Transformer.

    The model's weights must not change afterwards.
    """

    def __init__(self, model: StepwiseModel, shortlist: Shortlist | None = None) -> None:
        self._stepwise = model.frozen()
        super().__init__(self._stepwise, shortlist)

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding with `beam_size` hypotheses per sentence."""
        return StepwiseDecoding(self._stepwise, self.projection(), beam_size)


class StepwiseDecoding(TensorDecoding):
    """Sentences being written, `beam_size` hypotheses each.

    The hypotheses of a sentence share its memory. Each has its own state, which is copied on reordering, as
    its size does not grow with the output.
    """

    def __init__(self, model: StepwiseModel, projection: FullProjection, beam_size: int) -> None:
        self._model, self._projection, self._beam_size = model, projection, beam_size
        self._device = model.embeddings.matrix("target").device
        self._memory: Memory | None = None
        self._state: State = ()

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._projection.admit(sources)
        different, places = distinct(sources)
        encoded = self._model.encode(pad(different, self._device))
        memory = _rows(encoded, torch.tensor(places, device=self._device))
        state = self._model.first_state(len(sources), self._beam_size)
        if self._memory is not None:
            memory = _stacked(self._memory, memory)
            state = tuple(torch.cat(both) for both in zip(self._state, state, strict=True))
        self._memory, self._state = memory, state

    @torch.inference_mode()
    def logits(self, tokens: Int64[np.ndarray, "sentences beams"]) -> Any:
        """Append a token to every hypothesis; return the logits of the next token."""
        assert self._memory is not None
        read = sent(torch.from_numpy(tokens), self._device)
        hidden, self._state = self._model.step(read, self._state, self._memory)
        return self._projection(hidden)

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    @torch.inference_mode()
    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        of_each = sent(torch.from_numpy(parents), self._device)
        sentences = torch.arange(len(parents), device=self._device)[:, None]
        self._state = tuple(part[sentences, of_each] for part in self._state)

    @torch.inference_mode()
    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        if self._memory is None:
            return  # none has been admitted
        self._projection.keep(sentences)
        kept = torch.from_numpy(sentences).to(self._device)
        self._memory = _trimmed(_rows(self._memory, kept))
        self._state = tuple(part[kept] for part in self._state)


def _rows(memory: Memory, sentences: Tensor) -> Memory:
    return Memory(memory.mask[sentences], tuple(part[sentences] for part in memory.parts))


def _trimmed(memory: Memory) -> Memory:
    """Cut the trailing positions that are padding in every sentence."""
    longest = int(memory.mask.sum(1).max()) if len(memory.mask) else 0
    return Memory(memory.mask[:, :longest], tuple(part[:, :longest] for part in memory.parts))


def _stacked(memory: Memory, more: Memory) -> Memory:
    """Join two batches, padded to the same length."""
    length = max(memory.mask.size(1), more.mask.size(1))

    def stack(parts: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat(
            [functional.pad(part, (*[0, 0] * (part.dim() - 2), 0, length - part.size(1))) for part in parts]
        )

    parts = tuple(stack(both) for both in zip(memory.parts, more.parts, strict=True))
    return Memory(stack((memory.mask, more.mask)), parts)
