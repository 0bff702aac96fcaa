"""Minimum Bayes risk: the candidate with the highest expected utility (Eikema & Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

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
    included: an unbiased estimate of its expectation under the sampling distribution.

    Args:
        samples: At least one sample; duplicates count as often as they occur.
        utility: Utility function, called once with the distinct samples.
    """
    counts = Counter(samples)  # in order of first occurrence
    expected = utility(list(counts)) @ np.array(list(counts.values())) / len(samples)
    firsts = [samples.index(candidate) for candidate in counts]
    ranking = np.argsort(-expected, kind="stable")
    return [Ranked(firsts[i], float(expected[i])) for i in ranking]
