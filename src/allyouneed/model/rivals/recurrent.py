"""A recurrent encoder-decoder with attention, in the manner of GNMT (Wu et al. 2016)."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig
from allyouneed.model.attention import AdditiveCompatibility
from allyouneed.model.encoder_decoder import Memory, State, StepwiseModel, build_experts
from allyouneed.model.experts import Experts
from allyouneed.model.initialisation import initialise
from allyouneed.model.masks import padding_mask

_FIRST_RESIDUAL = 2
"""Residual connections begin at the third layer from the bottom (3.1 there)."""

_LSTM_CELL = "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"
"""PyTorch's names of the weights of a one-layer LSTM, in the order in which its cell takes them."""

Layer = Callable[[int, Tensor], Tensor]
"""The number of a decoder layer and its input -> its output, at all positions or at one."""


class Recurrent(StepwiseModel):
    """LSTM layers of d_model units each; the first layer of the encoder is bidirectional.

    The output of the decoder's first layer attends to the memory through a network with one hidden layer, and
    the result is part of the input of every layer above. With `feed_forward = "experts"`, a mixture of
    experts with a residual connection precedes the last layer of each stack; Shazeer et al. 2017 place one
    between their layers. Dropout is on the embeddings, on the input of every layer above the first, and on
    the output of the last. Attention needs memory for target tokens x source tokens x d_model numbers.

    Deviations from GNMT: attention uses the state of the current position, not the previous one, and its
    result is not an input of the first layer, so that a layer computes all positions in one call; each
    direction of the first layer has d_model / 2 units; embeddings are the Transformer's. From Shazeer et al.:
    units are not projected to a smaller width, and both stacks have the same number of layers.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width, above = config.d_model, config.num_layers - 1
        self.encoder_forwards = nn.LSTM(width, width // 2, batch_first=True)
        self.encoder_backwards = nn.LSTM(width, width // 2, batch_first=True)
        self.encoder = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(above))
        self.encoder_keys = nn.Linear(width, width, bias=False)
        self.decoder_queries = nn.Linear(width, width)
        self.decoder_attention = AdditiveCompatibility(1, width)
        self.decoder = nn.ModuleList(
            nn.LSTM(width if number == 0 else 2 * width, width, batch_first=True)
            for number in range(config.num_layers)
        )
        mixed = config.feed_forward == "experts"
        self.encoder_experts = build_experts(config) if mixed else None
        self.decoder_experts = build_experts(config) if mixed else None
        initialise(self)

    def encode(self, source: Int[Tensor, "batch source_len"]) -> Memory:
        """The last layer's states, and their keys for the attention."""
        mask = padding_mask(source)[:, 0, 0]
        x = self.dropout(self.read("source", source))
        there, back = self.encoder_forwards(x)[0], _reversed(x, mask)
        x = torch.cat([there, _reversed(self.encoder_backwards(back)[0], mask)], dim=-1)
        for number, layer in enumerate(self.encoder, start=1):
            x = self._before(number, x, self.encoder_experts)
            x = _add(number, x, layer(self.dropout(x))[0])
        return Memory(mask, (x, self.encoder_keys(x)))

    def decode(
        self, target_input: Int[Tensor, "batch target_len"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position, layer by layer."""
        return self._decode(target_input, memory, lambda number, x: self.decoder[number](x)[0])

    def first_state(self, num_sentences: int, beam_size: int) -> State:
        """Zeros for the output and the cells of each layer."""
        shape = num_sentences, beam_size, self.config.d_model
        return tuple(self.zeros(*shape) for _ in range(2 * len(self.decoder)))

    def step(
        self, tokens: Int[Tensor, "sentences beams"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "sentences beams d_model"], State]:
        """One step of every layer."""
        new: list[Tensor] = []

        def advance(number: int, x: Tensor) -> Tensor:
            lstm, before = self.decoder[number], state[2 * number : 2 * number + 2]
            assert isinstance(lstm, nn.LSTM)
            weights = (lstm.get_parameter(name) for name in _LSTM_CELL)
            hidden, cell = torch.lstm_cell(x.flatten(0, 1), [part.flatten(0, 1) for part in before], *weights)
            new.extend(part.view(before[0].shape) for part in (hidden, cell))
            return new[-2]

        return self._decode(tokens, memory, advance), tuple(new)

    def _decode(self, ids: Tensor, memory: Memory, layer: Layer) -> Tensor:
        x = layer(0, self.dropout(self.read("target", ids)))
        context = self._attend(x, memory)
        for number in range(1, len(self.decoder)):
            x = self._before(number, x, self.decoder_experts)
            x = _add(number, x, layer(number, self.dropout(torch.cat([x, context], dim=-1))))
        hidden: Tensor = self.dropout(x)
        return hidden

    def _attend(
        self, x: Float[Tensor, "batch target_len d_model"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Each position's mixture of the memory (equation 4 there)."""
        values, keys = memory.parts
        scores = self.decoder_attention(self.decoder_queries(x)[:, None], keys[:, None])[:, 0]
        weights = scores.masked_fill(~memory.mask[:, None], float("-inf")).softmax(dim=-1)
        context: Tensor = weights.to(values.dtype) @ values
        return context

    def _before(self, number: int, x: Tensor, experts: Experts | None) -> Tensor:
        """The input of a layer, after the experts if it is the last layer of its stack."""
        last = number == self.config.num_layers - 1
        return x + self.dropout(experts(x)) if last and experts is not None else x


def _add(number: int, x: Tensor, output: Tensor) -> Tensor:
    return x + output if number >= _FIRST_RESIDUAL else output


def _reversed(
    x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch length d_model"]:
    """Reverse every sentence; padding stays at its end."""
    positions = torch.arange(x.size(1), device=x.device)
    from_end = mask.sum(1, keepdim=True) - 1 - positions
    places = torch.where(from_end >= 0, from_end, positions)
    return x.gather(1, places[:, :, None].expand_as(x))
