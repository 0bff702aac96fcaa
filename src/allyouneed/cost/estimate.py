"""The cost of a planned run: parameters, FLOPs, memory, and the paper's own figures (Tables 2 and 3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from allyouneed.config.fidelity import Deviation, deviations, nearest_of_paper, sizes
from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.config.run import RunConfig
from allyouneed.model.sizes import count_parameters, unfolded_length
from allyouneed.training.flops import pairs_in_reach, training_flops

VOCAB_SIZE_OF_2017 = 40_960
"""Rows of the embedding in the code of 2017, regardless of the number of tokens in the data."""
P100_TFLOPS = 9.5
"""Sustained single-precision rate in the paper's estimates of cost (6.1)."""
NUM_P100 = 8

_REAL_SHARE = 25_000 / 26_500
"""Share of a batch that is not padding, on sentences with the lengths of WMT's."""
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class PublishedModel:
    """The paper's figures for one of its models."""

    parameters_millions: int
    """Table 3, last column."""
    vocab_size: int = VOCAB_SIZE_OF_2017
    """Size of the vocabulary that gives this number of parameters."""
    training_hours: float | None = None
    """Hours of training on eight P100 (5.2)."""

    @property
    def training_flops(self) -> float | None:
        """Table 2: time x number of GPUs x their sustained rate."""
        hours = self.training_hours
        return None if hours is None else hours * 3600 * NUM_P100 * P100_TFLOPS * 1e12


PUBLISHED = {
    "base": PublishedModel(65, training_hours=12),
    "big": PublishedModel(213, vocab_size=36_000, training_hours=3.5 * 24),
    "table3_dk_16": PublishedModel(58),
    "table3_dk_32": PublishedModel(60),
    "table3_layers_2": PublishedModel(36),
    "table3_layers_4": PublishedModel(50),
    "table3_layers_8": PublishedModel(80),
    "table3_d_model_256": PublishedModel(28),
    "table3_d_model_1024": PublishedModel(168),
    "table3_d_ff_1024": PublishedModel(53),
    "table3_d_ff_4096": PublishedModel(90),
    "aop1": PublishedModel(65),
    "aop2": PublishedModel(65),
}
"""Preset -> the paper's figures for it; the rows that the paper leaves blank are as large as base."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of memory that training in float32 needs at once."""

    weights: int
    gradients: int
    moments: int
    activations_estimate: int
    """Rough estimate of what a micro-batch keeps for its backward pass."""


@dataclass(frozen=True)
class Cost:
    """The cost of a planned run."""

    parameters_by_part: dict[str, int]
    """Embeddings, positions, encoder, decoder; tied matrices count once."""
    flops_per_target_token: int
    tokens_per_update: int
    """Target tokens of an update without padding, an estimate."""
    training_flops: float
    micro_batch_tokens: int
    memory: TrainingMemory
    published: PublishedModel | None
    """Figures of the paper's model of the same sizes; None if there is none."""
    nearest: str
    """Preset of the most similar model of the paper."""
    deviations: list[Deviation]
    """Deviations from the nearest model."""

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole model."""
        return sum(self.parameters_by_part.values())

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint on disk."""
        return self.memory.weights

    @property
    def state_bytes(self) -> int:
        """Size on disk of the state that only resuming needs."""
        return self.memory.moments


def cost(config: RunConfig, length: int) -> Cost:
    """Estimate the cost of a run on sentences of `length` tokens."""
    training, counted = config.training, _counted(config.model)
    parameters = count_parameters(config.model)
    flops = flops_per_target_token(config.model, length)
    micro_batch_tokens = training.resolved_micro_batch_tokens()
    tokens_per_update = round(training.batch_tokens * _REAL_SHARE)
    weights = _FLOAT_BYTES * sum(parameters.values())
    activations = _FLOAT_BYTES * micro_batch_tokens * activations_per_token(config.model, length)
    return Cost(
        parameters,
        flops,
        tokens_per_update,
        float(flops * tokens_per_update * training.num_steps),
        micro_batch_tokens,
        TrainingMemory(weights, weights, training.moments_per_weight * weights, activations),
        next((row for name, row in PUBLISHED.items() if _counted(PRESETS[name]().model) == counted), None),
        nearest_of_paper(config),
        deviations(config),
    )


def flops_per_target_token(config: ModelConfig, length: int) -> int:
    """FLOPs of the matrix products, forward and backward, for one target token and one source token.

    `length` is the number of tokens of source and target, and of keys per query, masked ones included.
    """
    return training_flops(config, 1, length, length, length) // length


_KEPT_BY_SSRU = 16
"""Numbers that a recurrent unit keeps per position and component: gates, and the steps of its scan."""


def activations_per_token(config: ModelConfig, length: int) -> int:
    """Rough count of the numbers that the backward pass needs for one target and one source token."""
    embeddings = 2 * 2 * config.d_model
    return embeddings + _KEPT[config.architecture](config, length)


def _kept_by_transformer(config: ModelConfig, length: int) -> int:
    """Attention keeps its queries (before and after scaling), keys, values, weights and result.

    Additive attention also keeps its hidden layer for every query and key, in two layouts. The feed-forward
    network keeps its inner layer; every sub-layer keeps a dropout mask and the input and output of its
    normalisation. Logits do not count, because they exist only in chunks.
    """
    d_k, d_v = config.head_widths

    def attention(keys: float) -> float:
        hidden = 2 * keys * d_k if config.attention == "additive" else 0
        return config.num_heads * (3 * d_k + 2 * d_v + keys + hidden)

    def own(*, causal: bool) -> float:
        return attention(pairs_in_reach(config, length, causal=causal) / length)

    around_sublayer, inside = 3 * config.d_model, _inside_position_wise(config)
    of_output = _KEPT_BY_SSRU * config.d_model if config.autoregression == "ssru" else own(causal=True)
    encoder = round(own(causal=False)) + inside + 2 * around_sublayer
    decoder = round(of_output + attention(length)) + inside + 3 * around_sublayer
    return config.num_layers * encoder + config.decoder_layers * decoder


def _kept_by_recurrent(config: ModelConfig, length: int) -> int:
    """An LSTM keeps its input, a dropout mask and its kernel's buffers; attention keeps its hidden layer."""
    width = config.d_model
    encoder, decoder = 18 * width, 22 * width  # measured with oneDNN, whose kernels keep the most
    attention = 2 * length * width + 4 * width
    experts = 2 * _inside_position_wise(config) if config.feed_forward == "experts" else 0
    return config.num_layers * (encoder + decoder) + attention + experts


def _kept_by_convolutional(config: ModelConfig, length: int) -> int:
    """A layer keeps its kernel's input, gates and result; attention keeps query, weights and result."""
    width = config.d_model
    attention = 4 * width + length
    return config.num_layers * (2 * (config.kernel_width + 4) * width + attention)


def _kept_by_bytenet(config: ModelConfig, _: int) -> int:
    """A block keeps its normalisations' inputs and outputs, its kernel's input, and the dropout mask."""
    source_and_target = unfolded_length(100) / 100 + 1  # the encoder is unfolded
    of_block = (5.5 + config.kernel_width / 2) * config.d_model
    return round(config.num_layers * source_and_target * of_block)


_KEPT: Mapping[str, Callable[[ModelConfig, int], int]] = {
    "transformer": _kept_by_transformer,
    "recurrent": _kept_by_recurrent,
    "convolutional": _kept_by_convolutional,
    "bytenet": _kept_by_bytenet,
}
"""`ModelConfig.architecture` -> count of the numbers that its layers keep."""


def _inside_position_wise(config: ModelConfig) -> int:
    if config.feed_forward == "network":
        return config.d_ff
    if config.feed_forward == "experts":
        kept_of_one = config.d_model + config.d_ff + config.d_model
        return config.experts_per_token * kept_of_one + 8 * config.num_experts
    d_k, d_v = config.parameter_head_widths
    return config.parameter_heads * (2 * d_k + d_v + config.parameter_pairs)


def _counted(model: ModelConfig) -> tuple[object, ...]:
    """The settings that determine the paper's number of parameters, to the million."""
    over_parameters = model.parameter_heads, *model.parameter_head_widths, model.parameter_pairs
    learned = model.positions == "learned"
    return *sizes(model), model.feed_forward, over_parameters, learned, model.tied_embeddings
