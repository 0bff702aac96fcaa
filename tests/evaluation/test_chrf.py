import pytest

from allyouneed.evaluation.chrf import chrf


def test_chrf_by_hand() -> None:
    # 1-grams: 2 of 3 match; 2-grams: 1 of 2; 3-grams: 0 of 1; longer ones there are none.
    assert chrf(["abc"], ["abd"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_recall_counts_twice() -> None:
    # Precision is 1; recall is 2 of 4 characters and 1 of 3 pairs: 5/12 on average.
    precision, recall = 1, 5 / 12
    assert chrf(["ab"], ["abab"]).value == pytest.approx(
        100 * 5 * precision * recall / (4 * precision + recall)
    )


def test_spaces_do_not_count() -> None:
    assert chrf(["a bc de"], ["ab cd e"]).value == pytest.approx(100)
