"""FLOPs of the matrix products of training: two per multiply-add, as in the literature."""

from collections.abc import Callable, Mapping

from allyouneed.config.model import ModelConfig
from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.store import PairStore
from allyouneed.model.sizes import source_positions, unfolded_length

_FLOPS_PER_MULTIPLY_ADD = 2
_PASSES = 3
"""Forward once; backward once for either factor of a product."""


def training_flops(
    config: ModelConfig, rows: int, source_len: int, target_len: int, num_target_tokens: int
) -> int:
    """FLOPs of one forward and backward pass over a batch.

    The count is that of the plain form of equation 1, padded and masked positions included, whatever a kernel
    skips or recomputes. Restricted self-attention counts only the pairs of positions within reach. Lengths
    include padding and end symbol. Only the `num_target_tokens` of all rows, without padding, are projected
    to logits.
    """
    layers = rows * _MULTIPLY_ADDS[config.architecture](config, source_len, target_len)
    logits = num_target_tokens * config.d_model * config.target_vocab_size
    if config.block > 1:  # each token trains one head, and is projected once more
        logits = 2 * logits + num_target_tokens * 2 * config.d_model**2
    return _PASSES * _FLOPS_PER_MULTIPLY_ADD * (layers + logits)


def _of_transformer(config: ModelConfig, source: int, target: int) -> int:
    front, source = _of_front(config, source), source_positions(config, source)
    per_key_or_query = config.num_heads * sum(config.head_widths)

    def attention(queries: int, keys: int, pairs: int) -> int:
        # Projections of queries and outputs (per query), of keys and values (per key); then the scores and
        # the weighted sums of values (per pair).
        return per_key_or_query * (config.d_model * (queries + keys) + pairs)

    # Learned offsets are multiplied with every query, and mixed for it.
    offsets = 2 * config.max_distance + 1 if config.positions == "relative" else 0
    encoder = attention(source, source, pairs_in_reach(config, source, causal=False) + source * offsets)
    if config.autoregression == "ssru":
        of_output = target * 2 * config.d_model**2
    else:
        of_output = attention(target, target, pairs_in_reach(config, target, causal=True) + target * offsets)
    decoder = of_output + attention(target, source, target * source)
    position_wise = position_wise_multiply_adds(config)
    return (
        front
        + config.num_layers * (encoder + position_wise * source)
        + config.decoder_layers * (decoder + position_wise * target)
    )


def _of_front(config: ModelConfig, frames: int) -> int:
    """Multiply-adds of the map of frames, and of the convolutions, to a half and to a quarter as many."""
    if config.front == "embeddings":
        return 0
    return frames * config.d_model * (4 * config.source_vocab_size + (2 + 1) * 3 * config.d_model) // 4


def _of_recurrent(config: ModelConfig, source: int, target: int) -> int:
    square = config.d_model**2

    def lstm(d_in: int, units: int) -> int:
        return 4 * units * (d_in + units)  # per position: four gates, from the input and the last state

    width, layers_above = config.d_model, config.num_layers - 1
    encoder = 2 * lstm(width, width // 2) + layers_above * lstm(width, width) + square  # the keys
    decoder = lstm(width, width) + layers_above * lstm(2 * width, width) + square  # the queries
    attention = 2 * width * source * target  # the network's second layer, and the weighted sums
    experts = position_wise_multiply_adds(config) if config.feed_forward == "experts" else 0
    return source * (encoder + experts) + target * (decoder + experts) + attention


def _of_convolutional(config: ModelConfig, source: int, target: int) -> int:
    square, layers = config.d_model**2, config.num_layers
    gated = layers * 2 * config.kernel_width * square
    attention = layers * 2 * config.d_model * source * target
    # Each stack ends with one linear map; each decoder layer has one before and one after its attention.
    return source * (gated + square) + target * (gated + layers * 2 * square + square) + attention


def _of_bytenet(config: ModelConfig, source: int, target: int) -> int:
    inside = config.d_model // 2
    block = 2 * config.d_model * inside + config.kernel_width * inside**2
    return (config.num_layers * block + config.d_model**2) * (unfolded_length(source) + target)


_MULTIPLY_ADDS: Mapping[str, Callable[[ModelConfig, int, int], int]] = {
    "transformer": _of_transformer,
    "recurrent": _of_recurrent,
    "convolutional": _of_convolutional,
    "bytenet": _of_bytenet,
}
"""`ModelConfig.architecture` -> multiply-adds of a forward pass over one pair, given its padded lengths."""


def pairs_in_reach(config: ModelConfig, length: int, *, causal: bool) -> int:
    """Number of (query, key) pairs that self-attention multiplies: all pairs, if it is not restricted."""
    reach = config.reach(causal=causal)
    if reach is None:
        return length * length
    farthest = [min(most, length - 1) for most in reach]
    # On each side, positions near the end of the sentence see fewer keys than the others.
    return length + sum(most * (most - 1) // 2 + (length - most) * most for most in farthest)


def position_wise_multiply_adds(config: ModelConfig) -> int:
    """Multiply-adds per position and layer of equation 2, or of what replaces it."""
    if config.feed_forward == "network":
        return 2 * config.d_model * config.d_ff
    if config.feed_forward == "experts":
        gates = 2 * config.d_model * config.num_experts  # and their noise
        return gates + config.experts_per_token * 2 * config.d_model * config.d_ff
    return (
        config.parameter_heads * sum(config.parameter_head_widths) * (config.d_model + config.parameter_pairs)
    )


def batch_flops(config: ModelConfig, store: PairStore, planned: PlannedBatch) -> int:
    """`training_flops` of a global batch, with each micro-batch padded to its longest pair."""
    source, target = store.source_lengths, store.target_lengths
    return sum(
        training_flops(
            config,
            len(pairs),
            int(source[pairs].max()) + 1,
            int(target[pairs].max()) + 1,
            int(target[pairs].sum()) + len(pairs),
        )
        for pairs in planned.micro_batches
    )
