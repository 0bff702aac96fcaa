"""Systems of several seeds are told apart by what seeds and the choice of sentences make."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from allyouneed.evaluation import seeds
from allyouneed.evaluation.seeds import SeedScores, called_different, compare_seeds, holm
from allyouneed.evaluation.significance import Counts, resampled_scores

NUM_SENTENCES = 200


def mean(sums: Counts) -> float:
    return float(sums[0] / sums[1])


def system(
    generator: np.random.Generator,
    sentences: NDArray[np.float64],
    num_seeds: int,
    *,
    better_by: float = 0.0,
    of_seeds: float = 0.1,
    of_both: float = 0.5,
) -> SeedScores:
    """Losses per sentence: common to all systems, plus a part of the seed, plus a part of both."""
    observed, resampled = [], []
    for _ in range(num_seeds):
        own = generator.normal(0, of_seeds) + generator.normal(0, of_both, len(sentences))
        losses = sentences - better_by + own
        counts = np.stack([losses, np.ones_like(losses)], axis=1)
        observed.append(losses.mean())
        resampled.append(resampled_scores(counts, mean, 200))
    return SeedScores(np.array(observed), np.array(resampled))


def p_value(baseline: Sequence[float], others: Sequence[float]) -> float:
    found = compare_seeds(SeedScores(np.array(baseline)), SeedScores(np.array(others)))
    assert found is not None
    return found.p_value


def test_without_sentences_it_is_students_t_test() -> None:
    # Means 1 and 4, deviations sqrt(2) and sqrt(2): t = 3 / sqrt(2), for which, with two degrees of freedom,
    # p = 1 - t / sqrt(2 + t^2).
    t = 3 / math.sqrt(2)
    assert p_value([0, 2], [3, 5]) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=0.005)
    # With one: p = 1 - 2 atan(t) / pi, for a seed beside two of deviation sqrt(2): t = 5 / sqrt(3).
    t = 5 / math.sqrt(3)
    assert p_value([0, 2], [6]) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=0.005)


def test_without_variation_over_seeds_it_is_the_bootstrap_of_sentences() -> None:
    generator = np.random.default_rng(1)
    differences = generator.normal(0.1, 1, NUM_SENTENCES)
    rows = [np.stack([losses, np.ones(NUM_SENTENCES)], axis=1) for losses in (0 * differences, differences)]
    systems = [
        SeedScores(np.full(3, losses[:, 0].mean()), np.tile(resampled_scores(losses, mean), (3, 1)))
        for losses in rows
    ]
    found = compare_seeds(*systems)
    assert found is not None
    z = abs(differences.mean()) / (differences.std() / math.sqrt(NUM_SENTENCES))
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.03)


def test_both_kinds_of_chance_add_up() -> None:
    generator = np.random.default_rng(2)
    sentences = generator.normal(3, 1, NUM_SENTENCES)
    both = [system(generator, sentences, 3) for _ in range(2)]
    seeds_alone = compare_seeds(*(SeedScores(scores.observed) for scores in both))
    together = compare_seeds(*both)
    assert seeds_alone is not None
    assert together is not None
    of_sentences = np.subtract(*(scores.resampled.mean(0) for scores in both)).std()  # type: ignore[union-attr]
    middle = np.percentile(seeds_alone.by_chance, (16, 84)), np.percentile(together.by_chance, (16, 84))
    widths = [float(high - low) / 2 for low, high in middle]
    assert widths[0] < widths[1] < widths[0] + 1.1 * of_sentences


@pytest.mark.parametrize("num_seeds", [4, 6])
def test_seeds_of_one_system_are_called_different_in_at_most_one_split_of_twenty(num_seeds: int) -> None:
    generator = np.random.default_rng(num_seeds)
    different = splits = 0
    for _ in range(100):
        sentences = generator.normal(3, 1, NUM_SENTENCES)
        found = called_different(system(generator, sentences, num_seeds))
        different, splits = different + found[0], splits + found[1]
    assert splits == 100 * math.comb(num_seeds, num_seeds // 2) // 2
    assert different / splits <= 0.05


def test_the_control_would_notice_a_test_that_draws_sentences_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    monkeypatch.setattr(seeds, "_variance_of_seeds", lambda *systems: (0.0, 2))
    found = [called_different(system(generator, generator.normal(3, 1, NUM_SENTENCES), 4)) for _ in range(60)]
    assert sum(different for different, _ in found) / sum(splits for _, splits in found) > 0.1


def test_a_real_difference_is_found() -> None:
    generator = np.random.default_rng(5)
    sentences = generator.normal(3, 1, NUM_SENTENCES)
    worse, better = system(generator, sentences, 3), system(generator, sentences, 3, better_by=1.0)
    found = compare_seeds(worse, better)
    assert found is not None
    assert found.difference == pytest.approx(-1, abs=0.3)
    assert found.p_value < 0.02
    assert found.p_equivalent(0.5) > 0.9


def test_equivalence_wants_certainty_and_not_only_a_small_difference() -> None:
    close = compare_seeds(SeedScores(np.array([1.0, 1.1, 1.2])), SeedScores(np.array([1.0, 1.1, 1.25])))
    noisy = compare_seeds(SeedScores(np.array([0.0, 1.1, 2.2])), SeedScores(np.array([0.0, 1.2, 2.2])))
    assert close is not None
    assert noisy is not None
    assert close.p_equivalent(0.5) < 0.05 < noisy.p_equivalent(0.5)
    assert close.p_equivalent(0.01) > 0.05, "not within so small a margin"


def test_too_few_seeds_and_infinite_scores_are_not_compared() -> None:
    one, three = SeedScores(np.array([1.0])), SeedScores(np.array([1.0, 1.1, 1.2]))
    assert compare_seeds(one, one) is None
    assert compare_seeds(three, SeedScores(np.array([1.0, np.inf]))) is None
    assert compare_seeds(one, three) is not None


def test_scores_that_do_not_vary_are_not_compared_however_their_mean_is_rounded() -> None:
    same = [SeedScores(np.full(3, score)) for score in (99.9, 100.0)]
    assert same[0].observed.var() > 0, "the mean of three 99.9 is rounded"
    assert compare_seeds(*same) is None
    same = [SeedScores(found.observed, np.full((3, 50), found.observed[0])) for found in same]
    assert compare_seeds(*same) is None


def test_a_bootstrap_claims_no_more_than_it_has_drawn() -> None:
    drawn = np.random.default_rng(4).normal(0, 0.01, 1_000)
    found = compare_seeds(
        SeedScores(np.zeros(3), np.zeros((3, 1_000))), SeedScores(np.ones(3), np.tile(1 + drawn, (3, 1)))
    )
    assert found is not None
    assert found.p_value == pytest.approx(1 / 1_001)


def test_very_many_splits_are_drawn_and_not_listed() -> None:
    assert called_different(SeedScores(np.random.default_rng(6).normal(size=40)))[1] == 100


def test_holms_correction_by_hand() -> None:
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    # Sorted 0.01, 0.02, 0.04, 0.2 times 4, 3, 2, 1, none below the one before it.
    assert holm([0.04, 0.01, 0.2, 0.02]) == pytest.approx([0.08, 0.04, 0.2, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
