from typing import Any

import pytest
import torch
from torch.nn import functional

from allyouneed.inference import score_targets
from allyouneed.symbols import END, START

SOURCES = [[5, 6, 7], [9], [10, 4, 4, 8, 5], [6, 6]]
TARGETS = [[8, 4], [7, 7, 7, 5], [], [9, 10]]


def test_scores_equal_cross_entropy_of_each_pair_alone(tiny_model: Any) -> None:
    model = tiny_model().eval()
    scores = score_targets(model, SOURCES, TARGETS, batch_tokens=14)
    for source, target, score in zip(SOURCES, TARGETS, scores, strict=True):
        with torch.no_grad():
            logits = model.project(model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]])))[0]
        losses = functional.cross_entropy(logits, torch.tensor([*target, END]), reduction="none")
        assert score.token_log_probs == pytest.approx((-losses).tolist(), abs=1e-5)
        assert score.log_prob == pytest.approx(-float(losses.double().sum()), abs=1e-5)


def test_no_pairs_have_no_scores(tiny_model: Any) -> None:
    assert score_targets(tiny_model(), [], []) == []
