""" """

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import CHRF

from allyouneed.evaluation.metrics import chrf
from allyouneed.evaluation.pairwise_chrf import pairwise_chrf


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


TEXT = st.text(alphabet="aab \u00a0\U0001f31bé", max_size=40) | st.text(max_size=12)


@given(texts=st.lists(TEXT, max_size=6))
def test_all_pairs_at_once_are_sacrebleus_sentences(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    np.testing.assert_allclose(
        pairwise_chrf(texts), np.reshape(expected, (len(texts), len(texts))), rtol=1e-12
    )
