"""Ancestral sampling from a model's distribution, and the choice among samples by minimum Bayes risk."""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import SearchRequest
from allyouneed.native import kernels
from allyouneed.native.arrays import Float32, Float64, Int64
from allyouneed.symbols import NEVER_PRODUCED

BLOCK_POSITIONS = 64
"""Number of positions per block of random numbers."""

_BLOCK_WIDTH = 256
_LARGEST_SHARE = 1 - np.finfo(np.float64).eps
"""x times this rounds below x, so a cumulative sum always exceeds its share."""


class Draws(NamedTuple):
    """How the next token of each sentence is drawn."""

    uniform: Float64[np.ndarray, " sentences"]
    """Random numbers in [0, 1)."""
    config: SearchConfig


def draws_of(
    sentences: Sequence[SearchRequest], lengths: Int64[np.ndarray, " sentences"], config: SearchConfig
) -> Draws:
    """The draws of tokens after outputs of these lengths.

    They depend only on the seed, the source and the number of the sample, not on the rest of the batch.
    """
    numbers = [
        _uniform_block(config.seed, tuple(sentence.source), sentence.sample, length // BLOCK_POSITIONS)[
            length % BLOCK_POSITIONS
        ]
        for sentence, length in zip(sentences, lengths.tolist(), strict=True)
    ]
    return Draws(np.array(numbers, np.float64), config)


def uniform_numbers(seed: int, source: Sequence[int], number: int, block: int) -> NDArray[np.float64]:
    """Random numbers in [0, 1) for one block of `BLOCK_POSITIONS` positions of one sample.

    They are the SHAKE128 (FIPS 202) hash of the arguments, so there is no generator state.
    """
    key = np.array([seed, number, block, *source], "<u8").tobytes()
    bits = np.frombuffer(hashlib.shake_128(key).digest(8 * BLOCK_POSITIONS), "<u8")
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


_uniform_block = functools.lru_cache(maxsize=4_096)(uniform_numbers)


def draw(logits: Float32[np.ndarray, "rows vocab"], draws: Draws) -> Int64[np.ndarray, " rows"]:
    """Draw one token per row: the first whose cumulative probability exceeds the random number.

    First only the `top_k` most probable tokens are kept (Fan et al. 2018); ties go to the lower id. Then the
    logits are divided by the temperature, and only the `nucleus` of the resulting distribution is kept.
    The logits of `NEVER_PRODUCED` are overwritten.
    """
    uniform, config = draws
    logits[:, NEVER_PRODUCED] = -np.inf
    if config.top_k is None:
        return _draw(logits, uniform, config)
    zeros, k = np.zeros(len(logits), np.float32), min(config.top_k, logits.shape[1])
    kept, ids = kernels.top_log_probs(logits, k, (), zeros)
    places = _draw(kept, uniform, config)
    return ids[np.arange(len(ids)), places]


def _draw(
    logits: NDArray[np.float32], uniform: NDArray[np.float64], config: SearchConfig
) -> NDArray[np.int64]:
    scaled = logits / np.float32(config.temperature)
    weights = np.exp(scaled - kernels.log_sum_exp(scaled)[:, None])
    return _crossing(nucleus(weights, config.top_p), uniform)


def nucleus(
    probabilities: Float32[np.ndarray, "rows width"], top_p: float
) -> Float32[np.ndarray, "rows width"]:
    """The smallest set of most probable entries of each row that sums to `top_p` (Holtzman et al. 2020).

    Entries tied with the least probable of the set are kept too. All others are set to zero, in place.
    """
    if top_p < 1.0:
        ascending = np.sort(probabilities)
        left_out = _crossing(ascending, np.full(len(ascending), 1 - top_p))
        least = np.take_along_axis(ascending, left_out[:, None], axis=1)
        probabilities[probabilities < least] = 0.0
    return probabilities


def _crossing(weights: NDArray[np.float32], share: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first place of each row where the cumulative sum of its weights exceeds `share` of the total.

    Two short cumulative sums, over blocks and then within one block, replace a long one, which is slow.
    """
    missing = -weights.shape[1] % _BLOCK_WIDTH
    blocks = np.pad(weights, [(0, 0), (0, missing)]).reshape(len(weights), -1, _BLOCK_WIDTH)
    block, rest = _cross(blocks.sum(axis=2, dtype=np.float64), np.minimum(share, _LARGEST_SHARE))
    inside = blocks[np.arange(len(blocks)), block]
    place, _ = _cross(inside, rest)
    last = weights.shape[1] - 1
    crossing: NDArray[np.int64] = np.minimum(block * _BLOCK_WIDTH + place, last)  # one even where all are NaN
    return crossing


def _cross(
    weights: NDArray[np.floating], share: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The first place whose cumulative sum exceeds the share, and the fraction of its weight needed."""
    cumulative = weights.cumsum(axis=1, dtype=np.float64)
    wanted = share * cumulative[:, -1]
    place = np.minimum((cumulative <= wanted[:, None]).sum(axis=1), weights.shape[1] - 1)
    rows = np.arange(len(weights))
    weight = weights[rows, place].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = (wanted - (cumulative[rows, place] - weight)) / weight
    return place, np.clip(rest, 0.0, _LARGEST_SHARE)


Candidate = TypeVar("Candidate", bound=Hashable)

PairwiseUtility = Callable[[Sequence[Candidate]], NDArray[np.float64]]
"""Utility of each candidate against each candidate as the reference: (candidates, references)."""


class Ranked(NamedTuple):
    """A candidate with its expected utility."""

    first: int
    """Index of its first occurrence among the samples."""
    expected_utility: float


def rank_by_expected_utility(
    samples: Sequence[Candidate], utility: PairwiseUtility[Candidate]
) -> list[Ranked]:
    """Rank the distinct samples by expected utility, highest first; ties go to the first drawn.

    The expected utility of a candidate is the mean of `utility(candidate, sample)` over all samples, itself
    included: an unbiased estimate of its expectation under the sampling distribution. Duplicates count as
    often as they occur; `utility` is called once with the distinct samples.
    """
    counts = Counter(samples)  # in order of first occurrence
    expected = utility(list(counts)) @ np.array(list(counts.values())) / len(samples)
    firsts = [samples.index(candidate) for candidate in counts]
    ranking = np.argsort(-expected, kind="stable")
    return [Ranked(firsts[i], float(expected[i])) for i in ranking]
