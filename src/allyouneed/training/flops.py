"""FLOPs of the matrix products of training: two a multiply-add, as the literature counts them."""

from allyouneed.config import ModelConfig
from allyouneed.data.batching import PlannedBatch
from allyouneed.data.store import PairStore

_FLOPS_PER_MULTIPLY_ADD = 2
_PASSES = 3
"""Forward once; backward once for either factor of a product."""


def training_flops(
    config: ModelConfig, rows: int, source_len: int, target_len: int, num_target_tokens: int
) -> int:
    """FLOPs of one forward and backward pass over a batch.

    Padded and masked positions count wherever they are multiplied, by the plain form of equation 1: what a
    kernel leaves out or computes twice does not change the count. Of restricted self-attention the pairs of
    positions in reach of each other count, and no others.

    Args:
        config: The model.
        rows: Sentence pairs.
        source_len: Tokens of each source, padding and end symbol included.
        target_len: Tokens of each target, likewise.
        num_target_tokens: Target tokens of all rows without padding, which alone are projected to logits.
    """
    d_model = config.d_model
    per_key_or_query = config.num_heads * sum(config.head_widths)

    def attention(queries: int, keys: int, pairs: int) -> int:
        # Queries and outputs are projected where the queries are, keys and values where the keys are; then
        # come the scores and the mixtures of values.
        return per_key_or_query * (d_model * (queries + keys) + pairs)

    source, target = source_len, target_len
    attentions = (
        attention(source, source, pairs_in_reach(config, source, causal=False))
        + attention(target, target, pairs_in_reach(config, target, causal=True))
        + attention(target, source, target * source)
    )
    position_wise = position_wise_multiply_adds(config) * (source + target)
    layers = rows * config.num_layers * (attentions + position_wise)
    logits = num_target_tokens * d_model * config.target_vocab_size
    return _PASSES * _FLOPS_PER_MULTIPLY_ADD * (layers + logits)


def pairs_in_reach(config: ModelConfig, length: int, *, causal: bool) -> int:
    """Pairs of a query and a key that self-attention multiplies: all, where it is not restricted."""
    if config.reach is None:
        return length * length
    farthest = min(config.reach, length - 1)
    behind = sum(range(farthest)) + (length - farthest) * farthest  # of the first positions, of the others
    return length + (1 if causal else 2) * behind


def position_wise_multiply_adds(config: ModelConfig) -> int:
    """Of one position in one layer: of equation 2, or of attention over parameters in its place."""
    if config.feed_forward == "network":
        return 2 * config.d_model * config.d_ff
    return (
        config.parameter_heads * sum(config.parameter_head_widths) * (config.d_model + config.parameter_pairs)
    )


def batch_flops(config: ModelConfig, store: PairStore, planned: PlannedBatch) -> int:
    """`training_flops` of a global batch, micro-batch by micro-batch, each padded to its longest pair."""
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
