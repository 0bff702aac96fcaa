"""Workloads of `bench train`: models of several sizes, random ids, and lengths as in real text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.model import ModelConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.data.schedule import BatchSchedule
from allyouneed.symbols import END, PADDING, START, UNKNOWN

Lengths = NDArray[np.int64]
"""Tokens of source and target of each pair, without end symbols: (num_pairs, 2)."""

_SEED = 1
_NUM_PAIRS = 29_000
"""The size of Multi30k; with fewer pairs to choose from, batches have more padding."""
_MULTI30K_MEANS = 14.29, 14.81
"""Mean tokens per English and German sentence of Multi30k's training set, joint BPE of 8,000 entries."""
_MULTI30K_DEVIATIONS = 4.74, 5.46
_MULTI30K_CORRELATION = 0.866


@dataclass(frozen=True)
class Shape:
    """A model and the kinds of batches that it is trained on."""

    model: ModelConfig
    batch_tokens: int
    """Tokens per batch on either side, padding included."""
    micro_batch_tokens: int
    """Tokens that `allyouneed` computes at once: as in presets of this size, or the whole batch."""
    steps: int
    """Steps per turn, each on another batch."""
    workloads: dict[str, Callable[[], Lengths]]
    """Description of the lengths -> the function that draws them."""
    studies_length: bool = False
    """Whether the shape compares fixed lengths; step memory on its last workload is then measured as well."""

    def on_lengths(self, lengths: Lengths, words: str) -> Self:
        """This shape on these lengths, described by `words`; unchanged if it compares fixed lengths."""
        return self if self.studies_length else replace(self, workloads={words: partial(np.asarray, lengths)})


def multi30k_lengths(factor: int = 1) -> Lengths:
    """Lengths drawn from the joint log-normal distribution with Multi30k's moments, times `factor`."""
    return log_normal_lengths(_MULTI30K_MEANS, _MULTI30K_DEVIATIONS, _MULTI30K_CORRELATION, factor)


def log_normal_lengths(
    of_means: tuple[float, float], of_deviations: tuple[float, float], correlation: float, factor: int = 1
) -> Lengths:
    """Lengths drawn from the joint log-normal distribution with these moments, times `factor`."""
    means, deviations = np.array(of_means), np.array(of_deviations)
    correlations = np.array([[1, correlation], [correlation, 1]])
    # Moments of the logarithm, from those of the log-normal variable.
    covariance = np.log1p(correlations * np.outer(deviations / means, deviations / means))
    centres = np.log(means) - covariance.diagonal() / 2
    logarithms = np.random.default_rng(_SEED).multivariate_normal(centres, covariance, _NUM_PAIRS)
    lengths: Lengths = np.maximum(1, np.rint(factor * np.exp(logarithms))).astype(np.int64)
    return lengths


def equal_lengths(tokens: int) -> Lengths:
    """Lengths of pairs whose sides all have `tokens` tokens, end symbol included."""
    return np.full((_NUM_PAIRS, 2), tokens - 1)


def make_batches(lengths: Lengths, batch_tokens: int, vocab_size: int) -> Iterator[Batch]:
    """Endless batches of random ids, planned as in training: pairs of similar length together."""
    random = np.random.default_rng(_SEED)
    schedule = BatchSchedule(
        lengths[:, 0], lengths[:, 1], batch_tokens=batch_tokens, micro_batch_tokens=batch_tokens, seed=_SEED
    )
    for planned in schedule.batches_from(0):
        (pairs,) = planned.micro_batches
        source, target = (_random_sentences(side, vocab_size, random) for side in lengths[pairs].T)
        shifted = np.pad(target, ((0, 0), (1, 0)), constant_values=START)[:, :-1]
        target_input = np.where(shifted == END, PADDING, shifted)
        yield Batch(source, target_input, target, planned.num_target_tokens, pairs)


def _random_sentences(lengths: NDArray[np.int64], vocab_size: int, random: np.random.Generator) -> Lengths:
    """Random ids with an end symbol, padded: (rows, longest + 1)."""
    ids = random.integers(UNKNOWN + 1, vocab_size, (len(lengths), lengths.max() + 1))
    columns = np.arange(ids.shape[1])
    ids[columns == lengths[:, None]] = END
    ids[columns > lengths[:, None]] = PADDING
    return ids


_SMALL = ModelConfig(
    source_vocab_size=8_000, target_vocab_size=8_000, d_model=256, d_ff=1024, num_layers=3, num_heads=4
)

SHAPES = {
    "small": Shape(_SMALL, 4_096, 1_024, 4, {"Multi30k's lengths": multi30k_lengths}),
    "base": Shape(ModelConfig(), 2_048, 2_048, 1, {"twice Multi30k's lengths": partial(multi30k_lengths, 2)}),
    "length": Shape(
        _SMALL,
        4_096,
        1_024,
        1,
        {"32 tokens": partial(equal_lengths, 32), "1,024 tokens": partial(equal_lengths, 1_024)},
        studies_length=True,
    ),
}
"""Name on the command line -> shape to measure."""
