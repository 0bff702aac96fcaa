"""What a run costs: parameters, FLOPs and memory, beside the paper's figures for its own (Tables 2 and 3)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from allyouneed.config.fidelity import Deviation, deviations, nearest_of_paper, sizes
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.model import build_model
from allyouneed.model.rivals.bytenet import unfolded_length
from allyouneed.training.flops import pairs_in_reach, training_flops

VOCAB_SIZE_OF_2017 = 40_960
"""Rows of the embedding in the code of 2017, however many tokens the data had."""
P100_TFLOPS = 9.5
"""Sustained single-precision rate by which the paper estimates its costs (6.1)."""
NUM_P100 = 8

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Published:
    """What the paper prints about one of its models."""

    parameters_millions: int
    """Table 3, last column."""
    vocab_size: int = VOCAB_SIZE_OF_2017
    """With so many entries that count comes out."""
    training_hours: float | None = None
    """On eight P100 (5.2)."""

    @property
    def training_flops(self) -> float | None:
        """Table 2: time x number of GPUs x their sustained rate."""
        hours = self.training_hours
        return None if hours is None else hours * 3600 * NUM_P100 * P100_TFLOPS * 1e12


PUBLISHED = {
    "base": Published(65, training_hours=12),
    "big": Published(213, vocab_size=36_000, training_hours=3.5 * 24),
    "table3_dk_16": Published(58),
    "table3_dk_32": Published(60),
    "table3_layers_2": Published(36),
    "table3_layers_4": Published(50),
    "table3_layers_8": Published(80),
    "table3_d_model_256": Published(28),
    "table3_d_model_1024": Published(168),
    "table3_d_ff_1024": Published(53),
    "table3_d_ff_4096": Published(90),
    "aop1": Published(65),
    "aop2": Published(65),
}
"""Name of a preset -> what the paper prints about it; the rows it leaves blank are as large as base."""


@dataclass(frozen=True)
class Memory:
    """Bytes that training holds at once, in float32."""

    weights: int
    gradients: int
    adam_moments: int
    activations_estimate: int
    """What a micro-batch keeps for its backward pass, roughly."""


@dataclass(frozen=True)
class Cost:
    """What a run costs."""

    parameters_by_part: dict[str, int]
    """Embeddings, positions, encoder, decoder; tied matrices count once."""
    flops_per_target_token: int
    training_flops: float
    micro_batch_tokens: int
    memory: Memory
    published: Published | None
    """Figures of the paper's model of these sizes, if there is one."""
    nearest: str
    """The preset of a model of the paper that is most like it."""
    deviations: list[Deviation]
    """From that model."""

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole model."""
        return sum(self.parameters_by_part.values())

    @property
    def checkpoint_bytes(self) -> int:
        """On disk."""
        return self.memory.weights

    @property
    def state_bytes(self) -> int:
        """On disk, of what only resuming needs."""
        return self.memory.adam_moments


def cost(config: RunConfig, length: int) -> Cost:
    """What the run costs, on sentences of `length` tokens."""
    training = config.training
    parameters = count_parameters(config.model)
    flops = flops_per_target_token(config.model, length)
    micro_batch_tokens = training.resolved_micro_batch_tokens()
    weights = _FLOAT_BYTES * sum(parameters.values())
    activations = _FLOAT_BYTES * micro_batch_tokens * activations_per_token(config.model, length)
    return Cost(
        parameters,
        flops,
        float(flops * training.batch_tokens * training.num_steps),
        micro_batch_tokens,
        Memory(weights, weights, 2 * weights, activations),
        _published(config),
        nearest_of_paper(config),
        deviations(config),
    )


def count_parameters(config: ModelConfig) -> dict[str, int]:
    """Part of the model -> its parameters, counted on the model itself, which takes no memory here."""
    with torch.device("meta"):
        model = build_model(config)
    counts = Counter({"embeddings": 0, "positions": 0, "encoder": 0, "decoder": 0})
    for name, parameter in model.named_parameters():
        part = name.partition(".")[0]
        # Of the decoder is also what its name begins, such as decoder_norm.
        counts["positions" if part.endswith("_positions") else part.partition("_")[0]] += parameter.numel()
    return dict(counts)


def flops_per_target_token(config: ModelConfig, length: int) -> int:
    """FLOPs of the matrix products, forward and backward, for one target token and one source token.

    Args:
        config: The model.
        length: Tokens of source and target; each query meets so many keys, masked ones too.
    """
    return training_flops(config, 1, length, length, length) // length


def activations_per_token(config: ModelConfig, length: int) -> int:
    """Numbers kept for the backward pass for one target token and one source token, roughly."""
    embeddings = 2 * 2 * config.d_model
    return embeddings + _KEPT[config.architecture](config, length)


def _kept_by_transformer(config: ModelConfig, length: int) -> int:
    """Bytes kept for the backward pass by all layers.

    Attention keeps its queries (scaled ones too), keys, values, weights and result, additive attention its
    hidden layer for every query and key, in two layouts, the feed-forward network its inside, and every
    sub-layer a dropout mask, and what its normalisation takes and gives. The logits, which exist in chunks
    only, are left out.
    """
    d_k, d_v = config.head_widths

    def attention(keys: float) -> float:
        hidden = 2 * keys * d_k if config.attention == "additive" else 0
        return config.num_heads * (3 * d_k + 2 * d_v + keys + hidden)

    own_keys = [pairs_in_reach(config, length, causal=causal) / length for causal in (False, True)]
    attentions = round(sum(attention(keys) for keys in (*own_keys, length)))
    around_sublayer = 3 * config.d_model
    return config.num_layers * (attentions + 2 * _inside_position_wise(config) + 5 * around_sublayer)


def _kept_by_recurrent(config: ModelConfig, length: int) -> int:
    """An LSTM keeps its input, a dropout mask, and what its kernel wants; attention its network's inside."""
    width = config.d_model
    encoder, decoder = 18 * width, 22 * width  # measured of oneDNN, whose kernels keep most
    attention = 2 * length * width + 4 * width
    experts = 2 * _inside_position_wise(config) if config.feed_forward == "experts" else 0
    return config.num_layers * (encoder + decoder) + attention + experts


def _kept_by_convolutional(config: ModelConfig, length: int) -> int:
    """A layer keeps what its kernel sees, gates and result; attention query, weights and what it found."""
    width = config.d_model
    attention = 4 * width + length
    return config.num_layers * (2 * (config.kernel_width + 4) * width + attention)


def _kept_by_bytenet(config: ModelConfig, _: int) -> int:
    """A block keeps what its normalisations take and give, what its kernel sees, and the dropout mask.

    The encoder is unfolded.
    """
    source_and_target = unfolded_length(100) / 100 + 1
    of_block = (5.5 + config.kernel_width / 2) * config.d_model
    return round(config.num_layers * source_and_target * of_block)


_KEPT: Mapping[str, Callable[[ModelConfig, int], int]] = {
    "transformer": _kept_by_transformer,
    "recurrent": _kept_by_recurrent,
    "convolutional": _kept_by_convolutional,
    "bytenet": _kept_by_bytenet,
}
"""`ModelConfig.architecture` -> numbers kept by its layers."""


def _inside_position_wise(config: ModelConfig) -> int:
    if config.feed_forward == "network":
        return config.d_ff
    if config.feed_forward == "experts":
        kept_of_one = config.d_model + config.d_ff + config.d_model
        return config.experts_per_token * kept_of_one + 8 * config.num_experts
    d_k, d_v = config.parameter_head_widths
    return config.parameter_heads * (2 * d_k + d_v + config.parameter_pairs)


def _published(config: RunConfig) -> Published | None:
    counted = _counted(config.model)
    return next((row for name, row in PUBLISHED.items() if _counted(PRESETS[name]().model) == counted), None)


def _counted(model: ModelConfig) -> tuple[object, ...]:
    """What the paper's count of parameters is a count of, to the million."""
    over_parameters = model.parameter_heads, *model.parameter_head_widths, model.parameter_pairs
    learned = model.positions == "learned"
    return *sizes(model), model.feed_forward, over_parameters, learned, model.tied_embeddings
