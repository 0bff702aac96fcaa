"""ByteNet (Kalchbrenner et al. 2016): one stack of dilated convolutions on another, without attention."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.model.dropout import Dropout
from allyouneed.model.encoder_decoder import Memory, State, StepwiseModel
from allyouneed.model.initialisation import initialise
from allyouneed.model.rivals.convolution import Convolution
from allyouneed.model.sizes import unfolded_length
from allyouneed.symbols import PADDING

Convolve = Callable[[Convolution, Tensor], Tensor]
"""A dilated convolution and its input -> its output, at all positions or at one."""


class ByteNet(StepwiseModel):
    """Residual blocks of dilated convolutions; those of the decoder see no later position.

    The encoder computes as many positions as the target is expected to have, and reads padding symbols
    beyond the end of the source. At each position, the decoder reads the sum of the previous token's
    embedding and the encoder's output. Beyond the encoder's last position it reads the embedding alone, so
    that a target may be longer (dynamic unfolding, 3.2 there). Dropout is on embeddings and on the residual
    of each block.

    Deviations: sub-words replace bytes, and may need fewer dilations; the original has no dropout; embeddings
    are the Transformer's, one of which projects to the vocabulary; one layer instead of two follows the last
    block of each stack.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)

        def blocks(causal: bool) -> nn.ModuleList:
            inside, width = config.d_model // 2, config.kernel_width
            dilations = (2 ** (number % config.num_dilations) for number in range(config.num_layers))
            convolutions = (Convolution(inside, inside, width, d, causal=causal) for d in dilations)
            return nn.ModuleList(_Block(config, each) for each in convolutions)

        self.encoder, self.decoder = blocks(causal=False), blocks(causal=True)
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(config.d_model, config.layer_norm_epsilon) for _ in range(2)
        )
        self.encoder_output, self.decoder_output = (
            nn.Linear(config.d_model, config.d_model) for _ in range(2)
        )
        initialise(self)

    def encode(self, source: Int[Tensor, "batch source_len"]) -> Memory:
        """The encoder's output at each position of the expected target."""
        length = unfolded_length(source.size(1))
        unfolded = unfolded_length((source != PADDING).sum(1, keepdim=True))
        mask = torch.arange(length, device=source.device) < unfolded
        x = self.dropout(
            self.read("source", functional.pad(source, (0, length - source.size(1)), value=PADDING))
        )

        def convolve(convolution: Convolution, y: Tensor) -> Tensor:
            output: Tensor = convolution(y * mask[:, :, None])
            return output

        for block in self.encoder:
            x = block(x, convolve)
        columns = self.encoder_output(self.encoder_norm(x).relu())
        return Memory(mask, (columns * mask[:, :, None],))

    def decode(
        self, target_input: Int[Tensor, "batch target_len"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position, block by block."""
        columns = memory.parts[0]
        beside = functional.pad(columns, (0, 0, 0, target_input.size(1) - columns.size(1)))
        return self._decode(target_input, beside, lambda convolution, y: convolution(y))

    def first_state(self, num_sentences: int, beam_size: int) -> State:
        """The position, and for each block the inputs that its convolution reaches back to."""
        start = torch.zeros(num_sentences, beam_size, dtype=torch.int64, device=self.zeros().device)
        return start, *(layer.first_window(num_sentences, beam_size) for layer in self._convolutions())

    def step(
        self, tokens: Int[Tensor, "sentences beams"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "sentences beams d_model"], State]:
        """One position of every block."""
        (columns,) = memory.parts
        at, *windows = state
        new: list[Tensor] = []

        def convolve(convolution: Convolution, y: Tensor) -> Tensor:
            output, window = convolution.step(y, windows[len(new)])
            new.append(window)
            return output

        there: Bool[Tensor, "sentences beams 1"] = (at < columns.size(1))[:, :, None]
        places = at.clamp(max=columns.size(1) - 1)[:, :, None].expand(-1, -1, columns.size(2))
        hidden = self._decode(tokens, columns.gather(1, places) * there, convolve)
        return hidden, (at + 1, *new)

    def _convolutions(self) -> list[Convolution]:
        return [block.convolution for block in self.decoder if isinstance(block, _Block)]

    def _decode(self, ids: Tensor, beside: Tensor, convolve: Convolve) -> Tensor:
        x = self.dropout(self.read("target", ids)) + beside
        for block in self.decoder:
            x = block(x, convolve)
        hidden: Tensor = self.decoder_output(self.decoder_norm(x).relu())
        return hidden


class _Block(nn.Module):
    """A residual block with ReLU (figure 3 there), half as wide inside."""

    def __init__(self, config: ModelConfig, convolution: Convolution) -> None:
        super().__init__()
        outside, inside = config.d_model, config.d_model // 2
        self.norms = nn.ModuleList(
            nn.LayerNorm(width, config.layer_norm_epsilon) for width in (outside, inside, inside)
        )
        self.narrow, self.wide = nn.Linear(outside, inside), nn.Linear(inside, outside)
        self.convolution = convolution
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], convolve: Convolve
    ) -> Float[Tensor, "batch length d_model"]:
        """The sum of the input and the output of the block's layers."""
        first, second, third = self.norms
        y = self.narrow(first(x).relu())
        y = convolve(self.convolution, second(y).relu())
        added: Tensor = x + self.dropout(self.wide(third(y).relu()))
        return added
