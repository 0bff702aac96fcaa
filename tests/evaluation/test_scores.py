""" """

import math

import pytest

from allyouneed.errors import DataError
from allyouneed.evaluation.scores import (
    Score,
    aligned_references,
    format_scores,
    headline,
    perplexity,
    scores_to_json,
)

SCORES = [Score("bleu_13a", 34.567, "nrefs:1|tok:13a"), Score("perplexity", 1234.5, "per:word-piece")]


def test_table_has_one_aligned_line_for_each_score() -> None:
    assert format_scores(SCORES).split("\n") == [
        "bleu_13a       34.57  nrefs:1|tok:13a",
        "perplexity   1234.50  per:word-piece",
    ]


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("bleu_13a", [34.567], "BLEU 34.6 (13a)"),
        ("bleu_ja_mecab", [3.0], "BLEU 3.0 (ja_mecab)"),
        ("bleu_char", [34.5, 35.25], "BLEU 34.5 and 35.2 (char)"),
        ("bracket_f1", [91.27], "F1 91.3 (labelled brackets)"),
        ("right", [62.5], "right 62.5"),
    ],
)
def test_the_headline_is_the_score_to_report(name: str, values: list[float], told: str) -> None:
    assert headline(*(Score(name, value, "") for value in values)) == told


def test_json_maps_each_name_to_score_and_signature() -> None:
    assert scores_to_json(SCORES) == {
        "bleu_13a": {"score": 34.567, "signature": "nrefs:1|tok:13a"},
        "perplexity": {"score": 1234.5, "signature": "per:word-piece"},
    }


def test_an_empty_line_is_no_reference_unless_there_is_no_other() -> None:
    given = [["a", "", " ", ""], ["b", "c", "", ""]]
    assert aligned_references(["h"] * 4, given) == [["a", None, "", ""], ["b", "c", None, None]]
    assert aligned_references(["h"] * 4, given[:1]) == [["a", "", "", ""]]


def test_every_list_of_references_has_a_line_for_each_hypothesis() -> None:
    with pytest.raises(DataError, match="2 hypotheses but 1 references, so that line 2 is alone"):
        aligned_references(["a", "b"], [["a", "b"], ["a"]])


def test_perplexity_of_uniform_guessing_is_the_size_of_the_vocabulary() -> None:
    assert perplexity(7 * math.log(37_000), 7).value == pytest.approx(37_000)


def test_perplexity_is_the_inverse_geometric_mean_of_the_probabilities() -> None:
    probabilities = [1 / 2, 1 / 8, 1]
    score = perplexity(-sum(map(math.log, probabilities)), len(probabilities))
    assert score.value == pytest.approx(16 ** (1 / 3))


def test_signature_says_what_is_counted() -> None:
    assert perplexity(1.0, 1).signature.startswith(
        "per:word-piece|end:counted|label-smoothing:no|version:allyouneed-"
    )


def test_a_loss_that_no_float_can_hold_the_exponential_of_is_an_infinite_perplexity() -> None:
    assert perplexity(1e30, 1).value == math.inf
