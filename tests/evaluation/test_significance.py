"""The paired bootstrap tells systems apart that differ, and no others, as one done by hand does."""

import random

import numpy as np
import pytest
from sacrebleu import BLEU, corpus_bleu

from allyouneed.errors import DataError
from allyouneed.evaluation.bleu import BleuTokens, bleu_13a
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
    better, worse = (
        paired_bootstrap(bad, good, REFERENCES, num_samples=200),
        paired_bootstrap(good, bad, REFERENCES, num_samples=200),
    )
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
    found = paired_bootstrap(worse, bad, REFERENCES, num_samples=200)
    assert found.system == pytest.approx(corpus_bleu(bad, [REFERENCES]).score)
    assert found.system > found.baseline > 0
    assert found.p_value < 0.02


def test_few_sentences_tell_nothing() -> None:
    for number in (1, 2, 29):
        found = paired_bootstrap(["x"] * number, REFERENCES[:number], REFERENCES[:number], num_samples=50)
        assert found.verdict == "too few sentences to tell; give at least 30"
    found = paired_bootstrap(["x"] * 30, REFERENCES[:30], REFERENCES[:30], num_samples=50)
    assert found.verdict == "significant"
    assert paired_bootstrap(REFERENCES, REFERENCES, REFERENCES, num_samples=50).verdict == "not significant"


def test_lines_have_to_match() -> None:
    with pytest.raises(DataError, match="80 references"):
        paired_bootstrap(REFERENCES, REFERENCES[:-1], REFERENCES)


def bootstrap_by_hand(
    systems: list[list[str]], references: list[list[str]], metric: BLEU, times: int
) -> float:
    """The p-value on the draws that the seed makes, each scored anew."""
    generator, size, differences = np.random.default_rng(12_345), len(references[0]), []
    draws = [generator.multinomial(size, np.full(size, 1 / size)) for _ in range(times)]
    for often in draws:
        drawn = [
            [[line] * n for line, n in zip(lines, often, strict=True)] for lines in (*systems, *references)
        ]
        flat = [[line for lines in text for line in lines] for text in drawn]
        first, second = (metric.corpus_score(lines, flat[2:]).score for lines in flat[:2])
        differences.append(second - first)
    first, second = (metric.corpus_score(lines, references).score for lines in systems)
    shifted = np.abs(np.array(differences) - np.mean(differences))
    return float((np.sum(shifted >= abs(second - first)) + 1) / (times + 1))


@pytest.mark.parametrize("tokenizer", ["13a", "zh", "char"])
def test_several_references_and_other_tokens_are_drawn_as_by_hand(tokenizer: str) -> None:
    systems, references = [spoilt(0.20, 3), spoilt(0.23, 4)], [REFERENCES, spoilt(0.3, 5)]
    if tokenizer != "13a":
        systems, references = (
            [[as_chinese(line) for line in text] for text in of] for of in (systems, references)
        )
    metric = BLEU(tokenize=tokenizer, force=True)
    found = paired_bootstrap(*systems, *references, tokens=BleuTokens(tokenizer), num_samples=50)
    assert found.p_value == bootstrap_by_hand(systems, references, metric, 50)
    assert found.baseline == pytest.approx(metric.corpus_score(systems[0], references).score)
    assert found.signature.startswith(f"{metric.get_signature()}|bs:50|")
    assert 0 < found.baseline < 100


def as_chinese(line: str) -> str:
    return "".join(chr(0x4E00 + sum(map(ord, word))) for word in line.split(" "))


def test_a_sentence_may_lack_a_reference() -> None:
    system, others = spoilt(0.2, 3), [line if n % 2 else "" for n, line in enumerate(spoilt(0.3, 5))]
    found = paired_bootstrap(spoilt(0.3, 9), system, REFERENCES, others, num_samples=2)
    expected = bleu_13a(system, REFERENCES, others)
    assert found.system == pytest.approx(expected.value)
    assert found.signature.startswith(f"{expected.signature}|")
    assert expected.signature.startswith("nrefs:var|")
