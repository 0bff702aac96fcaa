"""Ancestral sampling from a model's distribution, the whole of it or its most probable part."""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from allyouneed.config.run import SearchConfig
from allyouneed.inference.selection import NEVER_PRODUCED, Restrict, stable_top_k
from allyouneed.inference.sentence import Sentence

BLOCK_POSITIONS = 64
"""Positions whose random numbers are drawn at once."""

_BLOCK_WIDTH = 256
_LARGEST_SHARE = 1 - 2.0**-52
"""The product of a number with this is rounded to a smaller number, so that a sum is always over it."""


class Sampler:
    """A `search.Select` that draws each token from its distribution given those before it.

    A sample depends on the seed, its source and its number alone, not on what is drawn beside it. Log-
    probabilities are those under the model, whatever a token was drawn from.

    Args:
        config: Temperature, truncation and seed.
    """

    def __init__(self, config: SearchConfig) -> None:
        self._config = config

    def __call__(
        self,
        logits: Float[Tensor, "sentences 1 vocab"],
        num_tokens: int,
        restrict: Restrict | None,
        sentences: Sequence[Sentence],
        lengths: NDArray[np.int64],
    ) -> tuple[Float[Tensor, "sentences 1 1"], Int[Tensor, "sentences 1 1"]]:
        """One token of each sentence, and its log-probability."""
        assert num_tokens == 1
        rows = logits[:, 0].float()
        normalisers = rows.logsumexp(dim=1)
        if restrict is not None:
            restrict(rows[:, None], normalisers[:, None])
        drawn = draw(rows, self._uniform(sentences, lengths).to(rows.device), self._config)[:, None]
        log_probs = rows.gather(1, drawn) - normalisers[:, None]
        return log_probs[:, None], drawn[:, None]

    def _uniform(
        self, sentences: Sequence[Sentence], lengths: NDArray[np.int64]
    ) -> Float64[Tensor, " sentences"]:
        numbers = [
            _uniform_block(
                self._config.seed, tuple(sentence.source), sentence.sample, length // BLOCK_POSITIONS
            )[length % BLOCK_POSITIONS]
            for sentence, length in zip(sentences, lengths.tolist(), strict=True)
        ]
        return torch.tensor(numbers, dtype=torch.float64)


def uniform_numbers(seed: int, source: Sequence[int], number: int, block: int) -> NDArray[np.float64]:
    """The random numbers, in [0, 1), of `BLOCK_POSITIONS` positions of one sample.

    They are bits of SHAKE128 (FIPS 202) of the arguments: a function of these, without a state.
    """
    key = np.array([seed, number, block, *source], "<u8").tobytes()
    bits = np.frombuffer(hashlib.shake_128(key).digest(8 * BLOCK_POSITIONS), "<u8")
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


_uniform_block = functools.lru_cache(maxsize=4_096)(uniform_numbers)


def draw(
    logits: Float[Tensor, "rows vocab"], uniform: Float64[Tensor, " rows"], config: SearchConfig
) -> Int[Tensor, " rows"]:
    """One token of each row, where the cumulative distribution passes `uniform`.

    The tokens that may be produced are cut to the `top_k` most probable (Fan et al. 2018), the lower id
    where equal, log-probabilities divided by the temperature, and of the distribution which that gives the
    `nucleus` is kept. The logits of what is never produced are overwritten.
    """
    logits[:, list(NEVER_PRODUCED)] = float("-inf")
    if config.top_k is not None:
        kept, ids = stable_top_k(logits, config.top_k)
        return ids.gather(1, _draw(kept, uniform, config))[:, 0]
    return _draw(logits, uniform, config)[:, 0]


def _draw(logits: Tensor, uniform: Tensor, config: SearchConfig) -> Int[Tensor, "rows 1"]:
    weights = (logits / config.temperature).softmax(dim=-1)
    drawn = _crossing(nucleus(weights, config.top_p), uniform[:, None])
    return drawn.clamp(max=logits.size(1) - 1)  # where nothing may be drawn it could be anything


def nucleus(probabilities: Float[Tensor, "rows width"], top_p: float) -> Float[Tensor, "rows width"]:
    """The fewest most probable entries of each row that together have `top_p` (Holtzman et al. 2020).

    Those as probable as the least of them are kept too; the others are overwritten with zeros.
    """
    if top_p < 1.0:
        ascending = _ascending(probabilities)
        left_out = torch.full_like(ascending[:, :1], 1 - top_p, dtype=torch.float64)
        least = ascending.gather(1, _crossing(ascending, left_out))
        probabilities[probabilities < least] = 0.0
    return probabilities


def _ascending(values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy()))  # takes a thirtieth of the time of torch's
    return values.sort(dim=-1).values


def _crossing(
    weights: Float[Tensor, "rows width"], share: Float64[Tensor, "rows 1"]
) -> Int[Tensor, "rows 1"]:
    """The first place up to which the weights of a row sum to more than a share of them all.

    First the block of places is found and then the place in it, by two short cumulative sums in place of a
    long one, which loses what is small in float32 and takes its time in float64.
    """
    blocks = functional.pad(weights, (0, -weights.size(1) % _BLOCK_WIDTH)).unflatten(1, (-1, _BLOCK_WIDTH))
    block, rest = _cross(blocks.sum(dim=2), share.clamp(max=_LARGEST_SHARE))
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, _BLOCK_WIDTH))[:, 0]
    place, _ = _cross(inside, rest)
    return block * _BLOCK_WIDTH + place


def _cross(
    weights: Float[Tensor, "rows width"], share: Float64[Tensor, "rows 1"]
) -> tuple[Int[Tensor, "rows 1"], Float64[Tensor, "rows 1"]]:
    """The first place whose cumulative sum is over the share, and how much of its own weight that takes."""
    cumulative = weights.cumsum(dim=1, dtype=torch.float64)
    wanted = share * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, wanted, right=True)
    place = place.clamp(max=weights.size(1) - 1)
    weight = weights.gather(1, place).double()
    before = cumulative.gather(1, place) - weight
    return place, ((wanted - before) / weight).clamp(0.0, _LARGEST_SHARE)
