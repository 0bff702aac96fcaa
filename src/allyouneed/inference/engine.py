"""The Transformer in the form that decodes (paper 3.1, 6.1): one token a step, nothing computed twice."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from allyouneed.model import Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention, scaled_dot_product_attention
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.masks import padding_mask
from allyouneed.symbols import PADDING

_BLOCK_POSITIONS = 32


class Engine:
    """Starts decodings of a model, whose weights it shares; it follows their device and type."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.model.parameters()).device

    @property
    def max_positions(self) -> int | None:
        """The longest source or target that the model has positions for, if there is a limit."""
        config = self.model.config
        return config.max_positions if config.positions == "learned" else None

    def start(self, source: Int[Tensor, "sentences source_len"], beam_size: int) -> "TransformerDecoding":
        """Encode sources, which come with their end symbols and padded at the end."""
        return TransformerDecoding(self.model, source, beam_size)


class TransformerDecoding:
    """A batch of sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    The hypotheses of a sentence take the place of the target positions: they share the memory's keys and
    values, and one store of keys and values of all that any of them has read. No entry of the store is ever
    moved when hypotheses are reordered: `ancestry` says which entries each of them descends from.
    """

    def __init__(
        self, model: Transformer, source: Int[Tensor, "sentences source_len"], beam_size: int
    ) -> None:
        self._model = model
        self._layers = cast("list[DecoderLayer]", list(model.decoder))
        self._source_mask = padding_mask(source)
        memory = model.encode(source)
        # Views of the packed projection would be copied in every step.
        self._memory = [
            [part.contiguous() for part in layer.cross_attention.project_memory(memory)]
            for layer in self._layers
        ]
        self._written = [(_Store(), _Store()) for _ in self._layers]
        self._num_positions = 0
        self._ancestry = source.new_empty(source.size(0), beam_size, 0, dtype=torch.bool)

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; the logits of the token that follows it."""
        self._extend_ancestry()
        x = self._model.embed("target", tokens.reshape(-1, 1), self._num_positions).view(*tokens.shape, -1)
        for layer, written, memory in zip(self._layers, self._written, self._memory, strict=True):
            x = self._layer_step(layer, x, written, memory)
        self._num_positions += 1
        return self._model.project(x)

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Let hypothesis b of each sentence go on from what was hypothesis `parents[:, b]`."""
        self._ancestry = self._ancestry.gather(1, parents[:, :, None].expand_as(self._ancestry))

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences of the batch only."""
        self._source_mask = self._source_mask[sentences]
        self._ancestry = self._ancestry[sentences]
        self._memory = [[part[sentences] for part in memory] for memory in self._memory]
        for store in (store for pair in self._written for store in pair):
            store.keep(sentences)

    def _extend_ancestry(self) -> None:
        """Open the entries of this step, one for each hypothesis and each to its own."""
        sentences, beams, _ = self._ancestry.shape
        own = torch.eye(beams, dtype=torch.bool, device=self._ancestry.device).expand(sentences, -1, -1)
        self._ancestry = torch.cat([self._ancestry, own], dim=2)  # (sentences, beams, positions * beams)

    def _layer_step(
        self,
        layer: DecoderLayer,
        x: Float[Tensor, "sentences beams d_model"],
        written: tuple["_Store", "_Store"],
        memory: list[Tensor],
    ) -> Float[Tensor, "sentences beams d_model"]:
        """One layer as `DecoderLayer` has it, the keys and values taken from what is stored."""
        query, key, value = layer.self_attention.project(x)
        keys, values = written[0].append(key), written[1].append(value)
        attended = _attend(layer.self_attention, query, keys, values, self._ancestry[:, None])
        x = layer.after_self_attention(x, attended)
        query = layer.cross_attention.project_query(x)
        x = layer.after_cross_attention(
            x, _attend(layer.cross_attention, query, memory[0], memory[1], self._source_mask)
        )
        x = layer.after_feed_forward(x, layer.feed_forward(x))
        return x


class _Store:
    """Keys or values (sentences, heads, entries, width), in memory that grows by blocks."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._num_entries = 0

    def append(self, entries: Float[Tensor, "sentences heads beams width"]) -> Tensor:
        """Add the entries of one position; all that are stored."""
        sentences, heads, beams, width = entries.shape
        if self._memory is None:
            self._memory = entries.new_empty(sentences, heads, 0, width)
        end = self._num_entries + beams
        if end > self._memory.size(2):
            self._memory = functional.pad(self._memory, (0, 0, 0, _BLOCK_POSITIONS * beams))
        self._memory[:, :, self._num_entries : end] = entries
        self._num_entries = end
        return self._memory[:, :, :end]

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences only."""
        if self._memory is not None:
            self._memory = self._memory[sentences]


def _attend(
    attention: SelfAttention | CrossAttention,
    query: Float[Tensor, "sentences heads beams d_k"],
    key: Float[Tensor, "sentences heads key_len d_k"],
    value: Float[Tensor, "sentences heads key_len d_v"],
    mask: Bool[Tensor, "sentences 1 #beams key_len"],
) -> Float[Tensor, "sentences beams d_model"]:
    joined = scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
    output: Tensor = attention.output(joined)
    return output


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "batch length"]:
    """Token ids as one batch, filled up at the end with padding."""
    rows = [torch.tensor(ids, dtype=torch.int64) for ids in sequences]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING).to(device)
