"""Systems of several seeds are told apart by what seeds and the choice of sentences make."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from allyouneed.evaluation.significance import Counts, resampled_scores
from allyouneed.lab.statistics import seeds
from allyouneed.lab.statistics.seeds import SeedComparison, SeedScores, SeedTests, holm

NUM_SENTENCES = 200
DRAWN = np.random.default_rng(9).multinomial(NUM_SENTENCES, [1 / NUM_SENTENCES] * NUM_SENTENCES, 100)


def mean(sums: Counts) -> float:
    return float(sums[0] / sums[1])


def scores(observed: Sequence[float], resampled: NDArray[np.float64] | None = None) -> SeedScores:
    return SeedScores(range(1, len(observed) + 1), np.array(observed), resampled)


def compared(baseline: SeedScores, system: SeedScores, *others: SeedScores) -> SeedComparison | None:
    systems = {"baseline": baseline, "system": system} | {f"other {n}": own for n, own in enumerate(others)}
    return SeedTests(systems).compare("baseline", "system")


def p_value(*systems: Sequence[float]) -> float:
    found = compared(*map(scores, systems))
    assert found is not None
    return found.p_value


def of_t(t: float, freedom: int) -> float:
    """P-value of Student's t with one or two degrees of freedom."""
    return 1 - (2 * math.atan(abs(t)) / math.pi if freedom == 1 else abs(t) / math.sqrt(2 + t * t))


def systems_of(
    generator: np.random.Generator,
    better_by: Mapping[str, float],
    num_seeds: int,
    *,
    of_seeds: Mapping[str, float] | float = 0.1,
    of_blocks: float = 0.0,
    of_sentences: float = 0.0,
    of_both: Mapping[str, float] | float = 0.5,
) -> dict[str, SeedScores]:
    """Losses per sentence: common to all systems, plus parts of the seed, of seed and system, of sentence and
    system, and of each."""
    sentences, blocks = generator.normal(3, 1, NUM_SENTENCES), generator.normal(0, of_blocks, num_seeds)
    found: dict[str, SeedScores] = {}
    for name, better in better_by.items():
        observed, resampled = [], []
        of_system = generator.normal(0, of_sentences, len(sentences)) if of_sentences else 0.0
        deviation = of_seeds if isinstance(of_seeds, float) else of_seeds[name]
        for block in blocks:
            of_each = of_both if isinstance(of_both, float) else of_both[name]
            own = generator.normal(0, deviation) + generator.normal(0, of_each, len(sentences))
            losses = sentences + block - better + of_system + own
            observed.append(losses.mean())
            resampled.append(DRAWN @ losses / len(losses))
        found[name] = scores(observed, np.array(resampled))
    return found


def test_two_systems_without_sentences_are_tested_by_the_paired_t_test() -> None:
    # Differences 2, 5: mean 3.5, deviation 3 / sqrt(2), of their mean 1.5: t = 7 / 3, one degree of freedom.
    assert p_value([0, 2], [2, 7]) == pytest.approx(of_t(7 / 3, 1), abs=0.005)
    # Differences 1, 2, 6: mean 3, variance 7, of the mean 7 / 3; two degrees of freedom.
    assert p_value([0, 2, 5], [1, 4, 11]) == pytest.approx(of_t(3 / math.sqrt(7 / 3), 2), abs=0.005)


def test_what_a_seed_does_to_all_systems_is_taken_out() -> None:
    baseline, system = [1.0, 1.2, 1.1], [1.5, 1.8, 1.7]
    shifts = 0.0, 100.0, -30.0
    shifted = [
        [score + shift for score, shift in zip(own, shifts, strict=True)] for own in (baseline, system)
    ]
    assert p_value(*shifted) == pytest.approx(p_value(baseline, system), rel=1e-6)


def test_all_systems_tell_how_much_seeds_vary() -> None:
    # Residuals: +-0.5, -+0.5 and twice 0; their squares sum to 1, with two degrees of freedom. The first two
    # systems have a larger variance, 0.5 / (2 / 3) each, which is used for them.
    baseline, system, other = [0.0, 2.0], [5.0, 5.0], [1.0, 2.0]
    tests = SeedTests({"baseline": scores(baseline), "system": scores(system), "other": scores(other)})
    assert tests.degrees_of_freedom == 2
    assert tests.deviation == pytest.approx(math.sqrt(0.5))
    of_difference = math.sqrt((0.75 + 0.75) / 2)
    assert p_value(baseline, system, other) == pytest.approx(of_t(4 / of_difference, 2), abs=0.005)
    # The third varies less than all together, and has the deviation of all.
    found = tests.compare("baseline", "other")
    assert found is not None
    of_difference = math.sqrt((0.75 + 0.5) / 2)
    assert found.p_value == pytest.approx(of_t(0.5 / of_difference, 2), abs=0.005)


def test_systems_are_compared_over_the_seeds_that_both_have() -> None:
    both = SeedScores([2, 5], np.array([0.0, 2.0])), SeedScores([1, 2, 5], np.array([90.0, 2.0, 7.0]))
    found = compared(*both)
    assert found is not None
    assert found.difference == 3.5
    assert found.p_value == pytest.approx(of_t(7 / 3, 1), abs=0.005)
    assert (
        compared(SeedScores([1, 2], np.array([0.0, 2.0])), SeedScores([3, 4], np.array([1.0, 2.0]))) is None
    )


def test_without_variation_over_seeds_it_is_the_bootstrap_of_sentences() -> None:
    generator = np.random.default_rng(1)
    differences = generator.normal(0.1, 1, NUM_SENTENCES)
    rows = [np.stack([losses, np.ones(NUM_SENTENCES)], axis=1) for losses in (0 * differences, differences)]
    found = compared(
        *(
            scores([losses[:, 0].mean()] * 3, np.tile(resampled_scores(losses, mean), (3, 1)))
            for losses in rows
        )
    )
    assert found is not None
    z = abs(differences.mean()) / (differences.std() / math.sqrt(NUM_SENTENCES))
    assert found.p_value == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.03)


def chance(both: Mapping[str, SeedScores]) -> tuple[float, float, float]:
    """Variance of the difference that seeds make, that drawn sentences make, and that both make together."""
    seeds_alone = compared(*(scores(own.observed.tolist()) for own in both.values()))
    together = compared(*both.values())
    assert seeds_alone is not None
    assert together is not None
    of_sentences = np.subtract(*(own.resampled.mean(0) for own in both.values())).var()  # type: ignore[union-attr]
    return float(seeds_alone.by_chance.var()), float(of_sentences), float(together.by_chance.var())


def test_both_kinds_of_chance_add_up() -> None:
    of_seeds, of_sentences, together = chance(
        systems_of(np.random.default_rng(2), {"one": 0, "other": 0}, 9, of_sentences=0.5, of_both=0.0)
    )
    assert together == pytest.approx(of_seeds + of_sentences, rel=0.05)


def test_what_a_sentence_does_to_one_seed_counts_once() -> None:
    of_seeds, of_sentences, together = chance(
        systems_of(np.random.default_rng(2), {"one": 0, "other": 0}, 9, of_seeds=0.1, of_both=0.5)
    )
    assert of_sentences > 0.05 * of_seeds
    assert together == pytest.approx(of_seeds, rel=0.02)


def test_no_more_is_taken_out_of_the_sentences_than_is_in_the_seeds() -> None:
    both = systems_of(np.random.default_rng(2), {"one": 0, "other": 0}, 9, of_both=0.5)
    steady = {
        name: SeedScores(own.seeds, np.linspace(0, 1e-4, 9) * (-1) ** n, own.resampled)
        for n, (name, own) in enumerate(both.items())
    }
    _, of_sentences, together = chance(steady)
    assert together == pytest.approx(of_sentences, rel=0.02)


EQUAL = dict.fromkeys("abcdefg", 0.0)


def false_findings(
    num_seeds: int,
    of_seeds: Mapping[str, float] | float,
    num_families: int = 400,
    *,
    of_sentences: float = 0.0,
    of_both: Mapping[str, float] | float = 0.5,
) -> float:
    """Share of families of equal systems in which Holm's correction leaves a difference."""
    generator, found = np.random.default_rng(num_seeds), 0
    for _ in range(num_families):
        tests = SeedTests(
            systems_of(
                generator,
                EQUAL,
                num_seeds,
                of_seeds=of_seeds,
                of_blocks=0.5,
                of_sentences=of_sentences,
                of_both=of_both,
            )
        )
        of_family = [tests.compare("a", other) for other in "bcdefg"]
        found += min(holm([one.p_value for one in of_family if one is not None])) < 0.05
    return found / num_families


ONE_VARIES_MORE = dict.fromkeys("abcdef", 0.1) | {"g": 0.4}
MOST = 29 / 400
"""Of 400 families, 20 have a false finding by chance at most, with a deviation of 4.4."""


@pytest.mark.parametrize(
    ("num_seeds", "of_seeds", "of_sentences"),
    [
        (3, ONE_VARIES_MORE, 0.0),
        (2, 0.1, 0.5),
        *(
            pytest.param(*case, marks=pytest.mark.release)
            for case in (
                *((2, 0.1, 0.0), (3, 0.1, 0.0), (2, ONE_VARIES_MORE, 0.0)),
                (3, dict.fromkeys("bcdefg", 0.1) | {"a": 0.2}, 0.0),
                *((2, 0.0, 0.5), (3, 0.0, 0.5), (3, 0.1, 0.5), (3, 0.0, 0.0)),
            )
        ),
    ],
)
def test_one_family_in_twenty_has_a_false_finding_at_most(
    num_seeds: int, of_seeds: Mapping[str, float] | float, of_sentences: float
) -> None:
    assert false_findings(num_seeds, of_seeds, of_sentences=of_sentences) <= MOST


@pytest.mark.parametrize("more", ["a", pytest.param("b", marks=pytest.mark.release)])
def test_sentences_may_do_more_to_the_seeds_of_one_system(more: str) -> None:
    of_both = dict.fromkeys("abcdefg", 0.3) | {more: 0.9}
    assert false_findings(3, 0.0, of_sentences=0.1, of_both=of_both) <= MOST


@pytest.mark.parametrize("num_seeds", [3, pytest.param(2, marks=pytest.mark.release)])
def test_more_families_would_have_one_if_no_system_kept_its_own_variance(
    num_seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds._Fit, "variances_of", lambda fit, system: (fit.variance, 0.0))
    assert false_findings(num_seeds, ONE_VARIES_MORE) > MOST


@pytest.mark.parametrize(
    ("num_seeds", "of_seeds"),
    [(3, 0.1), *(pytest.param(*case, marks=pytest.mark.release) for case in ((4, 0.1), (3, 0.0), (3, 0.03)))],
)
def test_one_split_in_twenty_of_the_seeds_of_a_system_is_called_different(
    num_seeds: int, of_seeds: float
) -> None:
    generator = np.random.default_rng(num_seeds)
    different = splits = 0
    for _ in range(30):
        found = SeedTests(
            systems_of(generator, EQUAL, num_seeds, of_seeds=of_seeds, of_blocks=0.5, of_sentences=0.5)
        ).control()
        different, splits = different + found[0], splits + found[1]
    assert splits == 30 * len(EQUAL) * 3
    assert 0.02 <= different / splits <= 0.07


def test_the_control_would_notice_that_seeds_vary_more_than_is_assumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(3)
    monkeypatch.setattr(seeds._Fit, "variance", property(lambda fit: fit.squares.sum() / 60))
    found = [SeedTests(systems_of(generator, EQUAL, 4)).control() for _ in range(10)]
    assert sum(different for different, _ in found) / sum(splits for _, splits in found) > 0.1


def test_the_control_notices_a_system_that_varies_more_than_the_others() -> None:
    generator, of_seeds = np.random.default_rng(8), dict.fromkeys("abcdef", 0.02) | {"g": 2.0}
    different = sum(
        SeedTests(systems_of(generator, EQUAL, 3, of_seeds=of_seeds)).control()[0] for _ in range(20)
    )
    assert different > 20, "most of the 60 splits of g"


def test_a_control_needs_other_systems_that_know_the_seeds() -> None:
    one, other = scores([1.0, 1.1, 1.3]), scores([2.0, 2.2, 2.1])
    assert SeedTests({"one": one}).control() == (0, 0)
    assert SeedTests({"one": one, "other": other}).control() == (0, 0), (
        "one other does not tell seeds from rest"
    )
    apart = SeedScores([1, 2], np.array([1.0, 2.0])), SeedScores([3, 4], np.array([1.0, 2.5]))
    tests = SeedTests(
        {"one": scores([1.0, 1.1, 1.3, 1.2]), "a": apart[0], "b": apart[0], "c": apart[1], "d": apart[1]}
    )
    assert tests.degrees_of_freedom == 4 - 1 - 1 + 2, "12 scores less 5 systems, 4 seeds but one"
    assert tests.control()[1] == 4, (
        "pairs of seeds of a, b, c and d; nothing links seeds 1 and 2 to 3 and 4 but one"
    )


def test_a_real_difference_is_found() -> None:
    both = systems_of(np.random.default_rng(5), {"worse": 0, "better": 1.0, "third": 0.5}, 3)
    found = SeedTests(both).compare("worse", "better")
    assert found is not None
    assert found.difference == pytest.approx(-1, abs=0.3)
    assert found.p_value < 0.02
    assert found.p_equivalent(0.5) > 0.9


def test_equivalence_wants_certainty_and_not_only_a_small_difference() -> None:
    close = compared(scores([1.0, 1.1, 1.2]), scores([1.0, 1.1, 1.25]))
    noisy = compared(scores([0.0, 1.1, 2.2]), scores([1.0, 1.2, 1.2]))
    assert close is not None
    assert noisy is not None
    assert close.p_equivalent(0.5) < 0.05 < noisy.p_equivalent(0.5)
    assert close.p_equivalent(0.01) > 0.05, "not within so small a margin"


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_difference_at_the_margin_is_called_beyond_it_no_more_often_than_it_may_be(sign: float) -> None:
    chance = np.random.default_rng(8).normal(0, 0.2, 20_000)
    found = [SeedComparison(sign * 0.5 + error, chance).p_beyond(0.5) for error in chance[:2_000]]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.01)
    assert SeedComparison(0.3, chance).p_beyond(0.0) == pytest.approx(SeedComparison(0.3, chance).p_value)


def test_too_few_seeds_and_infinite_scores_are_not_compared() -> None:
    one, three = scores([1.0]), scores([1.0, 1.1, 1.2])
    assert compared(one, one) is None
    assert compared(one, three) is None
    assert compared(three, scores([1.0, np.inf, 1.0]), three) is None
    assert compared(three, scores([1.0, 1.0, 1.3]), scores([np.inf, 1.0, 1.0])) is not None


def test_scores_that_do_not_vary_are_not_compared_however_their_mean_is_rounded() -> None:
    same = [scores([score] * 3) for score in (99.9, 100.0)]
    assert same[0].observed.var() > 0, "the mean of three 99.9 is rounded"
    assert compared(*same) is None
    same = [scores([99.9] * 3, np.full((3, 50), found.observed[0])) for found in same]
    assert compared(*same) is None


def test_a_bootstrap_claims_no_more_than_it_has_drawn() -> None:
    drawn = np.random.default_rng(4).normal(0, 0.01, 1_000)
    found = compared(scores([0.0] * 3, np.zeros((3, 1_000))), scores([1.0] * 3, np.tile(1 + drawn, (3, 1))))
    assert found is not None
    assert found.p_value == pytest.approx(1 / 1_001)


def test_very_many_splits_are_drawn_and_not_listed() -> None:
    drawn = np.random.default_rng(6).normal(size=(3, 40))
    assert SeedTests({str(n): scores(own.tolist()) for n, own in enumerate(drawn)}).control()[1] == 300


def test_holms_correction_by_hand() -> None:
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    # Sorted 0.01, 0.02, 0.04, 0.2 times 4, 3, 2, 1, none below the one before it.
    assert holm([0.04, 0.01, 0.2, 0.02]) == pytest.approx([0.08, 0.04, 0.2, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
