"""Tests whether two systems, each trained with several seeds, differ or are equivalent.

Seeds and test sentences both vary, so both are drawn. Test sets are drawn with replacement (Koehn 2004), the
same ones for both systems. Two or three seeds are too few to be drawn with replacement: the difference that
they make is drawn from Student's t distribution, with a deviation for each system (Welch 1947). Without
sentences this is Welch's t test; without variation over seeds it is the paired bootstrap. Two seeds are few
even so: beside five of a system that varies much less, equal systems are called different in 12%, not 5%.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from allyouneed.evaluation.significance import SIGNIFICANT, share_as_large

_SEED = 54_321
_DRAWS_PER_TEST_SET = 100
_MAX_SPLITS = 100


@dataclass(frozen=True)
class SeedScores:
    """Scores of a system trained with several seeds."""

    observed: NDArray[np.float64]
    """Score per seed, [seeds]."""
    resampled: NDArray[np.float64] | None = None
    """Scores on drawn test sets, [seeds, samples]; None if only seeds are drawn."""

    def of(self, seeds: Sequence[int]) -> "SeedScores":
        """The scores of some of the seeds, by index."""
        chosen = list(seeds)
        return SeedScores(self.observed[chosen], None if self.resampled is None else self.resampled[chosen])


@dataclass(frozen=True)
class SeedComparison:
    """The difference between two systems, and the differences that chance alone makes."""

    difference: float
    """The system's mean score minus the baseline's."""
    by_chance: NDArray[np.float64]
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
        return share_as_large(self.by_chance, max(0.0, abs(self.difference) - margin))


def compare_seeds(baseline: SeedScores, system: SeedScores) -> SeedComparison | None:
    """Compare two systems over all their seeds.

    Returns:
        The comparison; None if there are fewer than three seeds in all, or if neither seeds nor sentences
        vary, so that chance is unknown, or if a score is not finite.
    """
    scores = baseline, system
    if not all(np.isfinite(of_system.observed).all() for of_system in scores):
        return None
    variance = _variance_of_seeds(baseline.observed, system.observed)
    if variance is None:
        return None
    spread, freedom = variance
    if baseline.resampled is None or system.resampled is None:
        of_sentences = np.zeros(1_000)
    else:
        of_sentences = system.resampled.mean(axis=0) - baseline.resampled.mean(axis=0)
        of_sentences = of_sentences - of_sentences.mean()
    if spread == 0 and np.ptp(of_sentences) == 0:
        return None
    generator = np.random.default_rng(_SEED)
    num_draws = _DRAWS_PER_TEST_SET if spread else 1  # copies of the same draws would claim more certainty
    of_seeds = spread * generator.standard_t(freedom, (num_draws, len(of_sentences)))
    difference = float(system.observed.mean() - baseline.observed.mean())
    return SeedComparison(difference, (of_seeds + of_sentences).ravel())


def _variance_of_seeds(*systems: NDArray[np.float64]) -> tuple[float, float] | None:
    """Deviation of the difference of means over seeds, and degrees of freedom.

    A single seed has no deviation of its own and is given that of the other system.

    Returns:
        Deviation and degrees of freedom; None if there are fewer than three seeds in all.
    """
    sizes = [len(scores) for scores in systems]
    if sum(sizes) < 3:
        return None
    own = [_variance(scores) if len(scores) > 1 else None for scores in systems]
    known = [variance for variance in own if variance is not None]
    if len(known) < len(own):
        (variance,) = known
        return math.sqrt(variance * sum(1 / size for size in sizes)), sum(sizes) - 2
    parts = [variance / size for variance, size in zip(known, sizes, strict=True)]
    if not any(parts):
        return 0.0, sum(sizes) - 2
    squares = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    return math.sqrt(sum(parts)), sum(parts) ** 2 / squares


def _variance(scores: NDArray[np.float64]) -> float:
    """Variance of a sample; exactly 0 of equal scores, whose computed mean may be rounded."""
    return float(scores.var(ddof=1)) if np.ptp(scores) else 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number: at most 1 family in 20 has a false finding (Holm 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values)[order]))
    found = np.empty(len(p_values))
    found[order] = adjusted
    return [float(p) for p in found]


def called_different(scores: SeedScores) -> tuple[int, int]:
    """Control of the test: the seeds of one system, split into halves, should not differ.

    Returns:
        The number of splits that are called different, and the number of splits: all of them, or some at
        random if there are very many. By chance, at most 5% of the splits of many systems are called
        different.
    """
    seeds, size = range(len(scores.observed)), len(scores.observed) // 2
    if math.comb(len(seeds), size) // (2 - len(seeds) % 2) > _MAX_SPLITS:
        generator = np.random.default_rng(_SEED)
        halves = [tuple(generator.permutation(seeds)[:size]) for _ in range(_MAX_SPLITS)]
    else:
        halves = list(combinations(seeds, size))
        if len(seeds) % 2 == 0:
            halves = halves[: len(halves) // 2]  # the other half of them are their complements
    comparisons = [
        compare_seeds(scores.of(half), scores.of([s for s in seeds if s not in half])) for half in halves
    ]
    tested = [found for found in comparisons if found is not None]
    return sum(found.p_value < SIGNIFICANT for found in tested), len(tested)
