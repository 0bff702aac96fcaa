"""A convolutional encoder-decoder with attention, in the manner of ConvS2S (Gehring et al. 2017)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.model.encoder_decoder import Memory, State, StepwiseModel
from allyouneed.model.initialisation import initialise
from allyouneed.model.masks import padding_mask
from allyouneed.model.positional_encoding import LearnedPositions, build_positions
from allyouneed.model.rivals.convolution import NormalisedConvolution

_KEPT = math.sqrt(0.5)
"""Factor that gives the sum of two terms the variance of one."""
_EMBEDDING_DEVIATION = 0.1
"""Initial deviation of embeddings and positions (3.5 there), which keeps their dot products small."""

Convolve = Callable[[int, Tensor], Tensor]
"""The number of a decoder layer and its input -> the convolved input, at all positions or at one."""


class Convolutional(StepwiseModel):
    """Weight-normalised gated convolutions, with a residual connection around each (3.2 there).

    Each decoder layer attends to the encoder's output: its query is its own state plus the embedding just
    read, and the values are the sum of that output and the source embeddings (3.3). Dropout is on
    embeddings, on the input of every convolution, and on the output of the decoder.

    Deviations: all layers have d_model units and one kernel width; of the original's fifteen, nine have 512
    units and four have 1,024, with width 3, and the last two have 2,048, with width 1. Embeddings are the
    Transformer's times 0.1, which gives them the original's scale, and are as wide as the layers; in the
    authors' code they have 768 units and are projected. The projection to the vocabulary is not
    weight-normalised. As in that code, the sum with the source embeddings is scaled by sqrt(1/2).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width, layers = config.d_model, range(config.num_layers)

        def gated(causal: bool) -> NormalisedConvolution:
            return NormalisedConvolution(
                width, 2 * width, config.kernel_width, gain=4.0, dropout=config.dropout, causal=causal
            )

        self.source_positions, self.target_positions = (
            build_positions(config.positions, width, config.max_positions) for _ in range(2)
        )
        self.encoder = nn.ModuleList(gated(causal=False) for _ in layers)
        self.encoder_output = NormalisedConvolution(width, width)
        self.decoder = nn.ModuleList(gated(causal=True) for _ in layers)
        self.decoder_queries = nn.ModuleList(NormalisedConvolution(width, width) for _ in layers)
        self.decoder_found = nn.ModuleList(NormalisedConvolution(width, width) for _ in layers)
        self.decoder_output = NormalisedConvolution(width, width)
        initialise(self)
        for positions in (self.source_positions, self.target_positions):
            if isinstance(positions, LearnedPositions) and not positions.weight.is_meta:
                nn.init.normal_(positions.weight)

    def encode(self, source: Int[Tensor, "batch source_len"]) -> Memory:
        """Keys, the encoder's output, and values, their scaled sum with the source embeddings."""
        mask = padding_mask(source)[:, 0, 0]
        positions = self.source_positions(source.size(1))
        embedded = self.dropout(_EMBEDDING_DEVIATION * (self.read("source", source) + positions))
        x = embedded
        for convolution in self.encoder:
            gates = convolution(self.dropout(x) * mask[:, :, None])
            x = (functional.glu(gates, dim=-1) + x) * _KEPT
        keys = self.encoder_output(x)
        if keys.requires_grad:  # every decoder layer sends two gradients back (3.4 there)
            keys.register_hook(lambda gradient: gradient / (2 * len(self.decoder)))
        return Memory(mask, (keys, (keys + embedded) * _KEPT))

    def decode(
        self, target_input: Int[Tensor, "batch target_len"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position, layer by layer."""
        positions = self.target_positions(target_input.size(1))
        return self._decode(target_input, positions, memory, lambda number, x: self.decoder[number](x))

    def first_state(self, num_sentences: int, beam_size: int) -> State:
        """The position, and for each layer the inputs that its convolution reaches back to."""
        start = torch.zeros(num_sentences, beam_size, dtype=torch.int64, device=self.zeros().device)
        return start, *(layer.first_window(num_sentences, beam_size) for layer in self._layers())

    def step(
        self, tokens: Int[Tensor, "sentences beams"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "sentences beams d_model"], State]:
        """One position of every layer."""
        at, *windows = state
        layers = self._layers()

        def convolve(number: int, x: Tensor) -> Tensor:
            y, windows[number] = layers[number].step(x, windows[number])
            return y

        positions = self.target_positions(int(at.max()) + 1)[at]
        hidden = self._decode(tokens, positions, memory, convolve)
        return hidden, (at + 1, *windows)

    def _layers(self) -> list[NormalisedConvolution]:
        return [layer for layer in self.decoder if isinstance(layer, NormalisedConvolution)]

    def _decode(self, ids: Tensor, positions: Tensor, memory: Memory, convolve: Convolve) -> Tensor:
        embedded = self.dropout(_EMBEDDING_DEVIATION * (self.read("target", ids) + positions))
        x = embedded
        for number, (queries, found) in enumerate(zip(self.decoder_queries, self.decoder_found, strict=True)):
            y = functional.glu(convolve(number, self.dropout(x)), dim=-1)
            attended = _attend((queries(y) + embedded) * _KEPT, memory)
            y = (found(attended) + y) * _KEPT
            x = (y + x) * _KEPT
        hidden: Tensor = self.dropout(self.decoder_output(x))
        return hidden


def _attend(
    query: Float[Tensor, "batch target_len d_model"], memory: Memory
) -> Float[Tensor, "batch target_len d_model"]:
    """Each position's mixture of the values, times the square root of their number (equations 1, 2; 3.4)."""
    keys, values = memory.parts
    mask: Bool[Tensor, "batch 1 source_len"] = memory.mask[:, None]
    scores = query.to(keys.dtype) @ keys.transpose(1, 2)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    found: Tensor = weights.to(values.dtype) @ values
    return found * mask.sum(-1, keepdim=True).sqrt().to(found.dtype)
