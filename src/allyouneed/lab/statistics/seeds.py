"""Tests whether systems, each trained with several seeds, differ or are equivalent.

A seed gives all systems the same data in the same order, which may be easier or harder to learn from. So two
systems are compared on the seeds that both have, and what a seed does to all systems is taken out: seeds are
the blocks of a two-way analysis of variance. What is left varies about as much in one system as in another,
and two or three seeds of one are too few to know how much, so the variance is pooled over the systems, and
the difference that seeds make is drawn from Student's t distribution. A system that varies more keeps its own
variance. With two systems, this is the paired t test.

Test sentences vary as well: test sets are drawn with replacement (Koehn 2004), the same ones for all systems.
What a sentence does to one seed of one system is in the variance over seeds already, and is counted once.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from allyouneed.evaluation.significance import SIGNIFICANT, share_as_large

_SEED = 54_321
_DRAWS_PER_TEST_SET = 100
_MAX_SPLITS = 100
_ROUNDING = 1e-12
"""Residuals below this share of the largest score are rounding errors."""

Array = NDArray[np.float64]
_NO_SENTENCES: Array = np.zeros(1_000)


@dataclass(frozen=True)
class SeedScores:
    """Scores of a system trained with several seeds."""

    seeds: Sequence[int]
    observed: Array
    """Score per seed, [seeds]."""
    resampled: Array | None = None
    """Scores on drawn test sets, [seeds, samples]; None if only seeds are drawn."""

    def restricted_to(self, seeds: Sequence[int]) -> "SeedScores":
        """The scores of some of its seeds, in their order."""
        chosen = [self.seeds.index(seed) for seed in seeds]
        drawn = None if self.resampled is None else self.resampled[chosen]
        return SeedScores(seeds, self.observed[chosen], drawn)

    def minus(self, other: "SeedScores") -> "SeedScores":
        """The differences from the scores of another system with the same seeds."""
        drawn = None
        if self.resampled is not None and other.resampled is not None:
            drawn = self.resampled - other.resampled
        return SeedScores(self.seeds, self.observed - other.observed, drawn)


@dataclass(frozen=True)
class SeedComparison:
    """The difference between two systems, and the differences that chance alone makes."""

    difference: float
    """The system's mean score minus the baseline's, over the seeds that both have."""
    by_chance: Array
    """Differences that seeds and test sentences make between equally good systems, [draws]."""

    @property
    def p_value(self) -> float:
        """Probability of a difference at least this large, either way, between equally good systems."""
        return share_as_large(self.by_chance, self.difference)

    def p_equivalent(self, margin: float) -> float:
        """P-value of two one-sided tests that the true difference is at least `margin`, either way."""
        below = (self.by_chance <= self.difference - margin).sum()
        above = (self.by_chance >= self.difference + margin).sum()
        return float((max(below, above) + 1) / (self.by_chance.size + 1))

    def p_beyond(self, margin: float) -> float:
        """P-value of a test that the true difference is at most `margin`, either way."""
        distance, outwards = abs(self.difference), np.copysign(1.0, self.difference) * self.by_chance
        as_far = (outwards >= distance - margin) | (outwards <= -distance - margin)
        return float((as_far.sum() + 1) / (as_far.size + 1))


class _Fit:
    """Scores as the sum of a system's part, a seed's part, and a residual, by least squares."""

    def __init__(self, systems: Mapping[str, SeedScores]) -> None:
        cells = [
            (name, seed, score)
            for name, scores in systems.items()
            for seed, score in zip(scores.seeds, scores.observed, strict=True)
        ]
        self.systems = [name for name, _, _ in cells]  # of each score
        column = {name: n for n, name in enumerate(systems)}
        self.seeds = {
            seed: len(systems) + n for n, seed in enumerate(sorted({seed for _, seed, _ in cells}))
        }  # seed -> its column
        self.design = np.zeros((len(cells), len(systems) + len(self.seeds)))  # parts of each score
        for row, (name, seed, _) in enumerate(cells):
            self.design[row, [column[name], self.seeds[seed]]] = 1
        observed = np.array([score for _, _, score in cells])
        self.inverse = np.linalg.pinv(self.design).astype(np.float64)  # parts from scores
        self.coefficients = self.inverse @ observed  # the parts, those of the systems first
        residuals = observed - self.design @ self.coefficients
        residuals[np.abs(residuals) <= _ROUNDING * np.abs(observed).max(initial=0)] = 0
        self.squares = residuals**2
        # Degrees of freedom of each residual, between 0 and 1.
        self.shares = 1 - np.einsum("sp,ps->s", self.design, self.inverse)
        # Variance over drawn test sets of what is left of each score; 0 if they are not drawn.
        self.of_sentences = np.zeros_like(residuals)
        drawn = [scores.resampled for scores in systems.values() if scores.resampled is not None]
        if drawn and len(drawn) == len(systems):
            on_test_sets = np.concatenate(drawn)
            left = on_test_sets - self.design @ (self.inverse @ on_test_sets)
            self.of_sentences = left.var(axis=1)

    @property
    def degrees_of_freedom(self) -> int:
        return round(float(self.shares.sum()))

    @property
    def variance(self) -> float:
        """Variance of the residuals, pooled over all systems."""
        return float(self.squares.sum()) / self.degrees_of_freedom

    def variances_of(self, system: str) -> tuple[float, float]:
        """Variance of a system's residuals, and that part of it which sentences make.

        They are pooled over all systems, or the system's own if it varies more.
        """
        own = np.array([name == system for name in self.systems])
        if self.shares[own].sum() <= _ROUNDING or self._mean(self.squares, own) < self.variance:
            own = np.ones_like(own)
        return self._mean(self.squares, own), self._mean(self.of_sentences, own)

    def _mean(self, values: Array, chosen: NDArray[np.bool_]) -> float:
        """A sum over some scores, divided by their degrees of freedom."""
        return float(values[chosen].sum() / self.shares[chosen].sum())

    def effect(self, weights: Mapping[int, float]) -> tuple[float, float] | None:
        """A weighted sum of seeds' parts, and its variance if residuals have variance 1; None if unknown."""
        if not weights.keys() <= self.seeds.keys():
            return None
        chosen = np.zeros(self.design.shape[1])
        chosen[[self.seeds[seed] for seed in weights]] = [*weights.values()]
        sources = chosen @ self.inverse
        if not np.allclose(sources @ self.design, chosen):
            return None
        return float(chosen @ self.coefficients), float(sources @ sources)


@dataclass(frozen=True)
class SeedTests:
    """Tests of systems that were trained with the same seeds and scored on the same sentences."""

    systems: Mapping[str, SeedScores] = field(repr=False)

    @functools.cached_property
    def _finite(self) -> dict[str, SeedScores]:
        return {name: scores for name, scores in self.systems.items() if np.isfinite(scores.observed).all()}

    @functools.cached_property
    def _fit(self) -> _Fit:
        return _Fit(self._finite)

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of `deviation`: 0 if the scores leave nothing to estimate it from."""
        return self._fit.degrees_of_freedom

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, pooled over systems, without what a seed does to all of them."""
        return math.sqrt(self._fit.variance) if self.degrees_of_freedom else None

    def compare(self, baseline: str, system: str) -> SeedComparison | None:
        """Compare two systems over the seeds that both have.

        None if these are fewer than two, if neither seeds nor sentences vary, or if a score is not finite.
        """
        if not {baseline, system} <= self._finite.keys():
            return None
        first, second = self.systems[baseline], self.systems[system]
        both = [seed for seed in first.seeds if seed in second.seeds]
        if len(both) < 2 or not self.degrees_of_freedom:
            return None
        differences = second.restricted_to(both).minus(first.restricted_to(both))
        variances = [self._fit.variances_of(name) for name in (baseline, system)]
        variance, counted_twice = (sum(parts) / len(both) for parts in zip(*variances, strict=True))
        return _comparison(
            float(differences.observed.mean()),
            _of_sentences(differences.resampled, min(variance, counted_twice)),
            variance,
            self.degrees_of_freedom,
        )

    def control(self) -> tuple[int, int]:
        """Control of the test: the seeds of one system, split into halves, should not differ.

        They are judged by the deviation of the other systems, so the control also shows whether one deviation
        holds for all. Sentences are not drawn, as they are the same in both halves.

        Returns:
            The number of splits that are called different, 5% by chance, and the number of splits: all of
            them, or some at random if there are very many.
        """
        called = [split.p_value < SIGNIFICANT for name in self._finite for split in self._splits(name)]
        return sum(called), len(called)

    def _splits(self, name: str) -> Iterator[SeedComparison]:
        """The halves of a system's seeds, compared by what the other systems tell of seeds."""
        others = _Fit(
            {other: replace(of, resampled=None) for other, of in self._finite.items() if other != name}
        )
        if not others.degrees_of_freedom:
            return
        own = self.systems[name]
        for half in _halves([seed for seed in own.seeds if seed in others.seeds]):
            if effect := others.effect(half):
                of_seeds, uncertainty = effect
                weights = np.array([*half.values()])
                variance = others.variance * (float(weights @ weights) + uncertainty)
                difference = float(weights @ own.restricted_to([*half]).observed) - of_seeds
                found = _comparison(difference, _NO_SENTENCES, variance, others.degrees_of_freedom)
                if found:
                    yield found


def _of_sentences(drawn: Array | None, counted_twice: float) -> Array:
    """Differences that the choice of sentences makes, besides those counted over seeds, [samples].

    `drawn` are the differences on drawn test sets, [seeds, samples]; `counted_twice` is that part of their
    variance that is also in the variance over seeds.
    """
    if drawn is None:
        return _NO_SENTENCES
    means: Array = drawn.mean(axis=0) - drawn.mean()
    variance = float(means.var())
    return means * math.sqrt(max(0.0, variance - counted_twice) / variance) if variance else means


def _comparison(
    difference: float, of_sentences: Array, variance: float, degrees_of_freedom: int
) -> SeedComparison | None:
    """A difference beside those that chance makes; None if nothing varies."""
    if variance == 0 and np.ptp(of_sentences) == 0:
        return None
    generator = np.random.default_rng(_SEED)
    num_draws = _DRAWS_PER_TEST_SET if variance else 1  # copies of the same draws would claim more certainty
    of_seeds = math.sqrt(variance) * generator.standard_t(degrees_of_freedom, (num_draws, len(of_sentences)))
    return SeedComparison(difference, (of_seeds + of_sentences).ravel())


def _halves(seeds: Sequence[int]) -> Iterator[dict[int, float]]:
    """Splits of seeds into halves, as weights of a difference of means."""
    size = len(seeds) // 2
    if size == 0:
        return
    if math.comb(len(seeds), size) // (2 - len(seeds) % 2) > _MAX_SPLITS:
        generator = np.random.default_rng(_SEED)
        halves = [tuple(generator.permutation(seeds)[:size].tolist()) for _ in range(_MAX_SPLITS)]
    else:
        halves = list(combinations(seeds, size))
        if len(seeds) % 2 == 0:
            halves = halves[: len(halves) // 2]  # the other half of them are their complements
    for half in halves:
        yield {seed: 1 / size if seed in half else -1 / (len(seeds) - size) for seed in seeds}


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number: at most 1 family in 20 has a false finding (Holm 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values)[order]))
    found = np.empty(len(p_values))
    found[order] = adjusted
    return [float(p) for p in found]
