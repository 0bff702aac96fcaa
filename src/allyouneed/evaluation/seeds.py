"""Tests whether two systems, each trained with several seeds, differ or are equivalent.

Seeds and test sentences both vary, so both are drawn. Test sets are drawn with replacement (Koehn 2004), the
same ones for both systems. Two or three seeds are too few to be drawn with replacement: the difference that
they make is drawn from Student's t distribution, with the pooled deviation over seeds. Without sentences this
is the t test; without variation over seeds it is the paired bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from allyouneed.evaluation.significance import SIGNIFICANT, share_as_large

_SEED = 54_321
_DRAWS_PER_TEST_SET = 100


@dataclass(frozen=True)
class SeedScores:
    """Scores of a system trained with several seeds."""

    observed: NDArray[np.float64]
    """Score per seed, [seeds]."""
    resampled: NDArray[np.float64] | None = None
    """Scores on drawn test sets, [seeds, samples]; None if only seeds are drawn."""

    def of(self, seeds: Sequence[int]) -> "SeedScores":
        """The scores of some of the seeds, by their places."""
        places = list(seeds)
        return SeedScores(self.observed[places], None if self.resampled is None else self.resampled[places])


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


def compare_seeds(baseline: SeedScores, system: SeedScores) -> SeedComparison | None:
    """Compare two systems over all their seeds.

    Returns:
        The comparison; None if there are fewer than three seeds in all, which leaves their deviation unknown,
        or if a score is not finite.
    """
    sizes = [len(scores.observed) for scores in (baseline, system)]
    freedom = sum(sizes) - 2
    if freedom < 1 or not np.isfinite([*baseline.observed, *system.observed]).all():
        return None
    squares = sum(float(scores.observed.var() * len(scores.observed)) for scores in (baseline, system))
    spread = np.sqrt(squares / freedom * sum(1 / size for size in sizes))
    generator = np.random.default_rng(_SEED)
    if baseline.resampled is None or system.resampled is None:
        of_sentences = np.zeros(1_000)
    else:
        of_sentences = system.resampled.mean(axis=0) - baseline.resampled.mean(axis=0)
        of_sentences = of_sentences - of_sentences.mean()
    of_seeds = spread * generator.standard_t(freedom, (_DRAWS_PER_TEST_SET, len(of_sentences)))
    difference = float(system.observed.mean() - baseline.observed.mean())
    return SeedComparison(difference, (of_seeds + of_sentences).ravel())


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, so that 1 family in 20 has a false one below 0.05 (Holm 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values)[order]))
    found = np.empty(len(p_values))
    found[order] = adjusted
    return [float(p) for p in found]


def called_different(scores: SeedScores) -> tuple[int, int]:
    """Control of the test: the seeds of one system, split into halves in all ways, should not differ.

    Returns:
        The number of splits that are called different, and the number of splits; by chance, at most 5% of
        the splits of many systems are called different.
    """
    seeds = range(len(scores.observed))
    halves = list(combinations(seeds, len(seeds) // 2))
    if len(seeds) % 2 == 0:
        halves = halves[: len(halves) // 2]  # the other half of them are their complements
    comparisons = [
        compare_seeds(scores.of(half), scores.of([s for s in seeds if s not in half])) for half in halves
    ]
    tested = [found for found in comparisons if found is not None]
    return sum(found.p_value < SIGNIFICANT for found in tested), len(tested)
