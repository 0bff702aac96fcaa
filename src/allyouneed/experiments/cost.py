"""What a run costs before it is run: parameters, FLOPs, memory, and the paper's own figures (5.2, Tables 2 and 3)."""

from collections import Counter
from dataclasses import dataclass

import torch

from allyouneed.config import ModelConfig, RunConfig
from allyouneed.model import Transformer
from allyouneed.presets import PRESETS

LENGTH_TOKENS = 25
"""Tokens of a sentence, where the user does not say: about the mean of WMT 2014 in word-pieces."""
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
"""Single-precision rates by which the paper estimates costs (6.1, footnote 5)."""

_FLOAT_BYTES = 4
_FLOPS_PER_MULTIPLY_ADD = 2
_PASSES = 3
"""Forward, and backward for either factor of each product."""
_MICRO_BATCHES = 4
"""Micro-batches of a global batch where `training.micro_batch_tokens` is not given, as in `runs`."""


@dataclass(frozen=True)
class Published:
    """What the paper prints of one of its models."""

    parameters_millions: int
    """Table 3, last column."""
    vocab_size: int = 40_960
    """Entries with which that count comes out: fixed in the code of 2017, whatever the tokens."""
    training_hours: float | None = None
    """On eight P100 (5.2); Table 2's cost is made of it."""

    @property
    def training_flops(self) -> float | None:
        """Table 2: time x number of GPUs x their sustained rate."""
        if self.training_hours is None:
            return None
        return self.training_hours * 3600 * 8 * SUSTAINED_TFLOPS["P100"] * 1e12


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
}
"""Name of a preset -> what Table 3 prints beside its row."""


@dataclass(frozen=True)
class Memory:
    """Bytes that training holds at once, in float32."""

    weights: int
    gradients: int
    adam_moments: int
    activations_estimate: int
    """What a micro-batch keeps for its backward pass, roughly."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.adam_moments + self.activations_estimate


def count_parameters(config: ModelConfig) -> dict[str, int]:
    """Part of the model (embeddings, positions, encoder, decoder) -> its parameters, tied ones once."""
    with torch.device("meta"):
        model = Transformer(config)
    counts = Counter({"embeddings": 0, "positions": 0, "encoder": 0, "decoder": 0})
    for name, parameter in model.named_parameters():
        counts[name.partition(".")[0].partition("_")[2] or name.partition(".")[0]] += parameter.numel()
    return dict(counts)


def flops_per_target_token(config: ModelConfig, length: int = LENGTH_TOKENS) -> int:
    """FLOPs of the matrix products, forward and backward, for a target token and a source token.

    Args:
        config: The model.
        length: Tokens of the source and of the target; each query meets so many keys, masked or not.
    """
    # Queries, keys, values and output: 2 d_model heads (d_k + d_v); scores and mixture: length heads (d_k + d_v).
    attention = config.num_heads * sum(config.head_widths) * (2 * config.d_model + length)
    feed_forward = 2 * config.d_model * config.d_ff
    layers = config.num_layers * (3 * attention + 2 * feed_forward)
    projection = config.d_model * config.target_vocab_size
    return _FLOPS_PER_MULTIPLY_ADD * _PASSES * (layers + projection)


def training_flops(config: RunConfig, length: int = LENGTH_TOKENS) -> float:
    """FLOPs of the matrix products of the whole run."""
    target_tokens = config.training.batch_tokens * config.training.num_steps
    return float(flops_per_target_token(config.model, length) * target_tokens)


def training_memory(config: RunConfig, length: int = LENGTH_TOKENS) -> Memory:
    """Bytes that training holds at once, in float32, for sentences of `length` tokens."""
    weights = _FLOAT_BYTES * sum(count_parameters(config.model).values())
    training = config.training
    tokens = training.micro_batch_tokens or max(1, training.batch_tokens // _MICRO_BATCHES)
    activations = _FLOAT_BYTES * tokens * _activations_per_token(config.model, length)
    return Memory(weights, weights, 2 * weights, activations)


def published(config: RunConfig) -> Published | None:
    """What the paper prints of a model of these sizes, whatever its vocabulary and dropout."""
    sizes = _sizes(config.model)
    return next((row for name, row in PUBLISHED.items() if _sizes(PRESETS[name]().model) == sizes), None)


def _sizes(config: ModelConfig) -> ModelConfig:
    defaults = ModelConfig()
    return config.replace(
        source_vocab_size=defaults.source_vocab_size,
        target_vocab_size=defaults.target_vocab_size,
        dropout=defaults.dropout,
    )


def _activations_per_token(config: ModelConfig, length: int) -> int:
    """Numbers kept for the backward pass, for a target token and a source token.

    Each sub-layer keeps its dropout's mask and what goes into and comes out of its normalisation; attention
    its queries (twice, scaled too), keys, values, weights and result; the feed-forward network its inside.
    """
    d_k, d_v = config.head_widths
    attention = config.num_heads * (3 * d_k + 2 * d_v + length)
    sublayers = 3 * attention + 2 * config.d_ff + 5 * 3 * config.d_model
    embeddings = 4 * config.d_model
    return config.num_layers * sublayers + embeddings
