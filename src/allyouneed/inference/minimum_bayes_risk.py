"""Minimum Bayes risk: of several candidates the one that is most like all of them (Eikema & Aziz 2020)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Candidate = TypeVar("Candidate", bound=Hashable)

PairwiseUtility = Callable[[Sequence[Candidate]], NDArray[np.float64]]
"""The utility of each candidate if each were the truth: (candidates, truths)."""


class Ranked(NamedTuple):
    """A candidate among others."""

    first: int
    """Where among the samples it is found first."""
    expected_utility: float


def rank_by_expected_utility(
    samples: Sequence[Candidate], utility: PairwiseUtility[Candidate]
) -> list[Ranked]:
    """The distinct samples, the one of least risk first; of equally good ones the first drawn.

    The expected utility of a candidate is the mean of `utility(candidate, sample)` over all samples, itself
    included: an estimate, without bias, of its expectation under the distribution that they were drawn from.

    Args:
        samples: At least one; equal ones count as often as they occur.
        utility: Is asked once, for the distinct samples.
    """
    counts = Counter(samples)  # in the order of their first occurrences
    expected = utility(list(counts)) @ np.array(list(counts.values())) / len(samples)
    firsts = [samples.index(candidate) for candidate in counts]
    ranking = np.argsort(-expected, kind="stable")
    return [Ranked(firsts[i], float(expected[i])) for i in ranking]
