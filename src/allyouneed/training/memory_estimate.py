"""The memory of an update, estimated before training, and how many tokens are computed at once within it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.model.sizes import count_parameters, unfolded_length
from allyouneed.training.flops import pairs_in_reach

_FLOAT_BYTES = 4
_USABLE_SHARE = 0.8
"""Share of an accelerator's memory that is planned with: the estimate is rough, and allocators leave gaps."""
_CHUNK_ELEMENTS, _CHUNK_ELEMENTS_OF_ACCELERATOR = 1 << 26, 1 << 28


def chunk_elements(device_type: str) -> int:
    """The maximum number of logits that the loss holds in memory at once.

    It is small enough for a CPU's memory, and large enough that an accelerator computes few chunks.
    """
    return _CHUNK_ELEMENTS if device_type == "cpu" else _CHUNK_ELEMENTS_OF_ACCELERATOR


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of memory that training in float32 needs at once."""

    weights: int
    gradients: int
    moments: int
    activations_estimate: int
    """Rough estimate of what a micro-batch keeps for its backward pass."""
    loss_estimate: int
    """Rough estimate of what the loss adds: logits and their softmax in chunks, and its gradients."""

    @property
    def peak_estimate(self) -> int:
        """The sum, in use when the loss of a micro-batch is computed."""
        kept = self.weights + self.gradients + self.moments
        return kept + self.activations_estimate + self.loss_estimate


def training_memory(config: RunConfig, tokens: int, length: int, chunk_elements: int) -> TrainingMemory:
    """Estimate the memory of an update.

    Args:
        config: Configuration of the run.
        tokens: Tokens per side that are computed at once.
        length: Tokens per sentence.
        chunk_elements: Maximum number of logits at once.
    """
    model = config.model
    weights = _FLOAT_BYTES * sum(count_parameters(model).values())
    logits = min(tokens * model.target_vocab_size, chunk_elements)
    of_matrix, of_hidden = model.target_vocab_size * model.d_model, tokens * model.d_model
    return TrainingMemory(
        weights,
        weights,
        config.training.moments_per_weight * weights,
        _FLOAT_BYTES * tokens * activations_per_token(model, length),
        _FLOAT_BYTES * (2 * logits + of_matrix + of_hidden),
    )


def fitting_tokens(config: RunConfig, most: int, length: int, chunk_elements: int, memory_bytes: int) -> int:
    """Half of `most` tokens per side, a quarter, .. until their update fits into an accelerator's memory.

    In bfloat16 more would fit, as the estimate is one of float32.
    """
    tokens = most
    while tokens > length:
        needed = training_memory(config, tokens, length, chunk_elements).peak_estimate
        if needed <= _USABLE_SHARE * memory_bytes:
            break
        tokens //= 2
    return tokens


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
