"""The least risk is found as brute force finds it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu import CHRF

from allyouneed.evaluation.chrf import pairwise_chrf
from allyouneed.inference.minimum_bayes_risk import rank_by_expected_utility


@given(
    samples=st.lists(st.sampled_from(["the cat", "the cats", "a cat", "dogs run", "", "cat the"]), min_size=1)
)
def test_the_ranking_is_that_of_all_pairs_one_by_one(samples: list[str]) -> None:
    metric = CHRF()
    expected = [
        sum(metric.sentence_score(candidate, [truth]).score for truth in samples) / len(samples)
        for candidate in samples
    ]
    ranked = rank_by_expected_utility(samples, pairwise_chrf)
    assert sorted(samples[r.first] for r in ranked) == sorted(set(samples))
    assert [r.expected_utility for r in ranked] == pytest.approx([expected[r.first] for r in ranked])
    assert all(samples.index(samples[r.first]) == r.first for r in ranked)
    utilities = [r.expected_utility for r in ranked]
    assert utilities == sorted(utilities, reverse=True)
    assert utilities[0] == pytest.approx(max(expected))


def test_the_utility_is_asked_once_for_distinct_samples_and_equal_utilities_keep_their_order() -> None:
    asked: list[list[str]] = []

    def utility(texts: Sequence[str]) -> NDArray[np.float64]:
        asked.append(list(texts))
        return np.eye(len(texts))

    ranked = rank_by_expected_utility(["c", "a", "b", "a", "b", "d"], utility)
    assert asked == [["c", "a", "b", "d"]]
    assert [tuple(r) for r in ranked] == [(1, 2 / 6), (2, 2 / 6), (0, 1 / 6), (5, 1 / 6)]


def test_which_of_a_pair_is_the_truth_matters() -> None:
    def utility(texts: Sequence[int]) -> NDArray[np.float64]:
        return np.array([[float(candidate >= truth) for truth in texts] for candidate in texts])

    assert [tuple(r) for r in rank_by_expected_utility([3, 9, 5, 5], utility)] == [
        (1, 1.0),
        (2, 0.75),
        (0, 0.25),
    ]
