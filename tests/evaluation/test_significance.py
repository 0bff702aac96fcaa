"""The paired bootstrap tells systems apart that differ, and no others, as one done by hand does."""

import random

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from allyouneed.errors import DataError
from allyouneed.evaluation.significance import paired_bootstrap

DRAW = random.Random(1)
WORDS = ["the", "a", "dog", "cat", "man", "runs", "sees", "in", "of", "red", "house", "big", "old"]
REFERENCES = [" ".join(DRAW.choices(WORDS, k=9)) for _ in range(80)]


def spoilt(share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join("x" if draw.random() < share else word for word in reference.split(" "))
        for reference in REFERENCES
    ]


def test_a_difference_that_is_plain_is_significant_either_way() -> None:
    good, bad = spoilt(0.1, 1), spoilt(0.3, 2)
    better, worse = paired_bootstrap(bad, good, REFERENCES, 200), paired_bootstrap(good, bad, REFERENCES, 200)
    assert better.difference == pytest.approx(-worse.difference)
    assert better.difference > 10
    assert max(better.p_value, worse.p_value) < 0.02
    assert better.system == pytest.approx(corpus_bleu(good, [REFERENCES]).score)


def test_the_p_value_is_that_of_a_bootstrap_by_hand() -> None:
    first, second = spoilt(0.20, 3), spoilt(0.23, 4)
    observed = corpus_bleu(second, [REFERENCES]).score - corpus_bleu(first, [REFERENCES]).score
    generator, differences = np.random.default_rng(5), []
    for _ in range(300):
        drawn = generator.integers(len(REFERENCES), size=len(REFERENCES))
        scores = [
            corpus_bleu([system[i] for i in drawn], [[REFERENCES[i] for i in drawn]]).score
            for system in (first, second)
        ]
        differences.append(scores[1] - scores[0])
    # Under the hypothesis of no difference the distribution is shifted to zero (Riezler and Maxwell 2005).
    shifted = np.abs(np.array(differences) - np.mean(differences))
    expected = (np.sum(shifted >= abs(observed)) + 1) / (len(differences) + 1)
    assert paired_bootstrap(first, second, REFERENCES).p_value == pytest.approx(expected, abs=0.08)


def test_systems_without_a_match_of_four_words_are_smoothed_as_scores_are() -> None:
    bad, worse = ([" ".join(r.split(" ")[:n]) + " x x x x" for r in REFERENCES] for n in (3, 2))
    found = paired_bootstrap(worse, bad, REFERENCES, 200)
    assert found.system == pytest.approx(corpus_bleu(bad, [REFERENCES]).score)
    assert found.system > found.baseline > 0
    assert found.p_value < 0.02


def test_few_sentences_tell_nothing() -> None:
    for number in (1, 2, 29):
        found = paired_bootstrap(["x"] * number, REFERENCES[:number], REFERENCES[:number], 50)
        assert found.verdict == "too few sentences to tell; give at least 30"
    found = paired_bootstrap(["x"] * 30, REFERENCES[:30], REFERENCES[:30], 50)
    assert found.verdict == "significant"
    assert paired_bootstrap(REFERENCES, REFERENCES, REFERENCES, 50).verdict == "not significant"


def test_lines_have_to_match() -> None:
    with pytest.raises(DataError, match="80 references"):
        paired_bootstrap(REFERENCES, REFERENCES[:-1], REFERENCES)
