"""Blocks of tokens read by PyTorch: the tokens of a block take the place of a sentence's hypotheses."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from allyouneed.inference.projection import FullProjection
from allyouneed.inference.torch_engine import TransformerDecoding
from allyouneed.model.masks import Positions, sent
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import NEVER_PRODUCED, PADDING


class TorchBlocks(TransformerDecoding):
    """Sentences being written, one hypothesis each; a `speculation.BlockReader`.

    All sentences read equally many tokens: padding is read behind the others, and never attended to.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__(model, FullProjection(model.project), beam_size=1)
        self._reach = self._kept
        self._kept = None  # entries that are out of reach are masked, not overwritten

    @property
    def most_positions(self) -> int | None:
        """Number of positions that the model has; None if there is no limit."""
        return self._model.config.most_positions

    @torch.inference_mode()
    def read(
        self, places: Sequence[int], starts: Sequence[int], blocks: Sequence[Sequence[int]]
    ) -> Float[Tensor, "tokens d_model"]:
        """Read a block of tokens in each of some sentences, as `speculation.BlockReader`."""
        counts = torch.tensor([len(block) for block in blocks])
        longest, firsts = int(counts.max()), self._positions.clone()
        tokens = torch.full((len(firsts), longest), PADDING)
        for place, start, block in zip(places, starts, blocks, strict=True):
            tokens[place, : len(block)] = torch.tensor(block)
            firsts[place] = start
        positions = firsts[:, None] + torch.arange(longest)
        self._make_room(int(positions.max()) + 1)
        self._positions[list(places)] = torch.tensor(starts) + counts
        hidden = self._hidden(sent(tokens, self._device), sent(positions, self._device))
        of_blocks = hidden[list(places)]  # (blocks, longest, d_model)
        return of_blocks[sent(torch.arange(longest) < counts[:, None], self._device)]

    def _num_encoded(self, num_positions: int) -> int:
        """Number of positions as of the base class, but for padding none beyond the last learned one."""
        most = self.most_positions
        return super()._num_encoded(num_positions if most is None else min(num_positions, most))

    def _hidden(self, tokens: Tensor, positions: Tensor) -> Float[Tensor, "sentences block d_model"]:
        """Read tokens at these positions, where each attends to the positions up to its own."""
        keys = torch.arange(self._ancestry.size(2), device=self._device)
        past = keys <= positions[:, :, None]  # (sentences, block, entries)
        if self._reach is not None:
            past &= keys > positions[:, :, None] - self._reach
        at = Positions(positions, keys[None])
        encoded = self._encodings[positions.clamp(max=len(self._encodings) - 1)]
        x = self._model.embeddings.embed("target", tokens) + encoded
        for layer, written, memory in zip(self._layers, self._written, self._memory, strict=True):
            x = self._layer_step(layer, x, positions, past, written, memory, at)
        hidden: Tensor = self._model.decoder_norm(x)
        return hidden

    @torch.inference_mode()
    def to_logits(self, hidden: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "tokens vocab"]:
        """The logits of hidden states."""
        return self._model.project(hidden)

    @torch.inference_mode()
    def best(self, hidden: Float[Tensor, "*rows d_model"]) -> Int64[np.ndarray, "*rows"]:
        """The most probable next token of each hidden state."""
        logits = self._model.project(hidden)
        logits[..., list(NEVER_PRODUCED)] = float("-inf")
        return logits.argmax(dim=-1).cpu().numpy()

    @torch.inference_mode()
    def ahead(self, hidden: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows heads d_model"]:
        """The states of the heads that propose tokens."""
        found: Tensor = self._model.block_heads(hidden)
        return found

    def stacked(self, rows: Sequence[Tensor]) -> Float[Tensor, "rows width"]:
        """Rows of hidden states or logits as one tensor."""
        return torch.stack(list(rows))
