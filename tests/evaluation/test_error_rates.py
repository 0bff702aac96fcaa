"""Error rates by jiwer, against edits counted by hand."""

import pytest

from allyouneed.errors import DataError, UsageError
from allyouneed.evaluation.error_rates import character_error_rate, share_exact, word_error_rate

pytest.importorskip("jiwer")
WANTED = ["the cat sat", "a dog"]
FOUND = ["the cat sit down", "a dog"]


def test_rates_are_edits_divided_by_the_length_of_all_references() -> None:
    assert word_error_rate(FOUND, WANTED).value == pytest.approx(100 * 2 / 5)  # sat -> sit, and down
    assert character_error_rate(FOUND, WANTED).value == pytest.approx(100 * 6 / 16)  # a -> i, and " down"
    assert share_exact(FOUND, WANTED).value == 50
    assert word_error_rate(["", ""], WANTED).value == 100
    assert word_error_rate(FOUND, WANTED).signature.startswith("jiwer:")


def test_references_that_cannot_be_scored_are_refused() -> None:
    with pytest.raises(DataError, match="reference 2: is empty"):
        word_error_rate(FOUND, ["a", " "])
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        character_error_rate(FOUND, ["a"])
    with pytest.raises(UsageError, match="one reference for each line"):
        word_error_rate(FOUND, WANTED, WANTED)
