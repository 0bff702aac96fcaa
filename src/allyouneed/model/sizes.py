"""Sizes that follow from the settings of a model alone: its parameters, and lengths inside ByteNet."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from allyouneed.config.model import TYING, ModelConfig

if TYPE_CHECKING:
    from torch import Tensor

    Length = TypeVar("Length", int, Tensor)
else:  # not everyone who asks for a length has PyTorch
    Length = TypeVar("Length")

NUM_SPACES = 32
"""Rows of the table of target spaces, one of which is used."""
_UNFOLDING = 6, 5
"""Expected ratio of target tokens to source tokens (ByteNet 3.2, for English and German)."""


def unfolded_length(source_len: Length) -> Length:
    """Number of positions that ByteNet's encoder computes for `source_len` tokens, end symbol included."""
    times, parts = _UNFOLDING
    return (times * source_len + parts - 1) // parts


def source_positions(config: ModelConfig, source_len: int) -> int:
    """Number of positions of the encoder for a source: a quarter of those of frames, rounded up."""
    return -(-source_len // 4) if config.front == "convolutions" else source_len


def count_parameters(config: ModelConfig) -> dict[str, int]:
    """Part of the model -> its number of parameters; tied matrices count once."""
    sizes = {"source": config.source_vocab_size}
    matrices = {
        name: sizes.get(role, config.target_vocab_size)
        for role, name in TYING[config.tied_embeddings].items()
    }
    positions = 2 * config.max_positions * (config.positions == "learned") + NUM_SPACES * config.target_space
    encoder, decoder = _STACKS[config.architecture](config)
    return {
        "embeddings": sum(matrices.values()) * config.d_model + config.target_vocab_size * config.output_bias,
        "positions": positions * config.d_model,
        "encoder": encoder
        + 2 * _linear(3 * config.d_model, config.d_model) * (config.front == "convolutions"),
        "decoder": decoder,
    }


def _linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    return (inputs + bias) * outputs


def _transformer(config: ModelConfig) -> tuple[int, int]:
    width, heads, bias, (d_k, d_v) = (
        config.d_model,
        config.num_heads,
        config.attention_bias,
        config.head_widths,
    )
    projections = _linear(width, heads * (2 * d_k + d_v), bias=bias) + _linear(heads * d_v, width, bias=bias)
    attention = projections + heads * d_k * (config.attention == "additive")
    of_source = attention + (2 * config.max_distance + 1) * (d_k + d_v) * (config.positions == "relative")
    recurrent = config.autoregression == "ssru"
    of_target = _linear(width, width, bias=False) + _linear(width, width) if recurrent else of_source
    norm, inside = 2 * width, _position_wise(config)
    last = norm * (config.norm == "pre")
    return (
        config.num_layers * (of_source + inside + 2 * norm) + last,
        config.decoder_layers * (of_target + attention + inside + 3 * norm) + last + _block_heads(config),
    )


def _block_heads(config: ModelConfig) -> int:
    return (config.block - 1) * 2 * _linear(config.d_model, config.d_model)


def _position_wise(config: ModelConfig) -> int:
    width, inner = config.d_model, config.d_ff
    if config.feed_forward == "network":
        return _linear(width, inner) + _linear(inner, width)
    if config.feed_forward == "experts":
        return config.num_experts * (2 * width + 2 * width * inner)  # a gate and its noise; two matrices
    return config.parameter_heads * sum(config.parameter_head_widths) * (width + config.parameter_pairs)


def _recurrent(config: ModelConfig) -> tuple[int, int]:
    width, above = config.d_model, config.num_layers - 1

    def lstm(inputs: int, units: int) -> int:
        return 4 * units * (inputs + units + 2)

    experts = _position_wise(config) if config.feed_forward == "experts" else 0
    keys, queries = _linear(width, width, bias=False), _linear(width, width)
    return (
        2 * lstm(width, width // 2) + above * lstm(width, width) + keys + experts,
        lstm(width, width) + above * lstm(2 * width, width) + queries + width + experts,
    )


def _convolutional(config: ModelConfig) -> tuple[int, int]:
    def normalised(outputs: int, kernel: int = 1) -> int:
        return outputs * (config.d_model * kernel + 2)  # with a magnitude and a bias of each output

    gated, linear = normalised(2 * config.d_model, config.kernel_width), normalised(config.d_model)
    return config.num_layers * gated + linear, config.num_layers * (gated + 2 * linear) + linear


def _bytenet(config: ModelConfig) -> tuple[int, int]:
    width, inside = config.d_model, config.d_model // 2
    maps = _linear(width, inside) + _linear(config.kernel_width * inside, inside) + _linear(inside, width)
    block = maps + 2 * (width + 2 * inside)
    stack = config.num_layers * block + 2 * width + _linear(width, width)
    return stack, stack


_STACKS: Mapping[str, Callable[[ModelConfig], tuple[int, int]]] = {
    "transformer": _transformer,
    "recurrent": _recurrent,
    "convolutional": _convolutional,
    "bytenet": _bytenet,
}
"""`ModelConfig.architecture` -> the parameters of its encoder and of its decoder."""
