import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import CHRF

from allyouneed.evaluation.pairwise_chrf import pairwise_chrf

TEXT = st.text(alphabet="aab \u00a0\U0001f31bé", max_size=40) | st.text(max_size=12)


@given(texts=st.lists(TEXT, max_size=6))
def test_all_pairs_at_once_are_sacrebleus_sentences(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    np.testing.assert_allclose(
        pairwise_chrf(texts), np.reshape(expected, (len(texts), len(texts))), rtol=1e-12
    )
