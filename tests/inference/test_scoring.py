import random
from typing import Any

import pytest
import torch
from tests.kernels import require_kernels
from torch.nn import functional

from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.native.library import FORMS
from allyouneed.symbols import END, START, UNKNOWN

SOURCES = [[5, 6, 7], [9], [10, 4, 4, 8, 5], [6, 6]]
TARGETS = [[8, 4], [7, 7, 7, 5], [], [9, 10]]


def test_scores_equal_cross_entropy_of_each_pair_alone(tiny_model: Any) -> None:
    model = tiny_model().eval()
    scores = score_targets(TorchEngine(model), SOURCES, TARGETS, batch_tokens=14)
    for source, target, score in zip(SOURCES, TARGETS, scores, strict=True):
        with torch.no_grad():
            logits = model.project(model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]])))[0]
        losses = functional.cross_entropy(logits, torch.tensor([*target, END]), reduction="none")
        assert score.token_log_probs == pytest.approx((-losses).tolist(), abs=1e-5)
        assert score.log_prob == pytest.approx(-float(losses.double().sum()), abs=1e-5)


def test_no_pairs_have_no_scores(tiny_model: Any) -> None:
    assert score_targets(TorchEngine(tiny_model()), [], []) == []


@pytest.mark.parametrize(
    "variant", [{}, {"d_k": 5, "d_v": 3}, {"positions": "learned", "max_positions": 9}], ids=str
)
def test_the_kernels_find_what_pytorch_finds(tiny_model: Any, variant: dict[str, Any]) -> None:
    require_kernels()
    model = tiny_model(**variant)
    found, expected = (
        score_targets(engine(model), SOURCES, TARGETS) for engine in (NativeEngine, TorchEngine)
    )
    for score, target in zip(found, expected, strict=True):
        assert score.token_log_probs == pytest.approx(target.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_kernels_score_with_the_same_bits_in_any_batch_order_and_number_of_threads(
    tiny_model: Any, form: str
) -> None:
    require_kernels()
    model, choose = tiny_model(vocab_size=203), random.Random(1)
    sources, targets = (
        [[choose.randrange(UNKNOWN, 203) for _ in range(choose.choice([0, 1, 4, 17]))] for _ in range(30)]
        for _ in range(2)
    )
    found = set()
    for seed, (batch_tokens, threads, workers) in enumerate(
        [(1, 1, 1), (40, 2, 1), (97, 1, 3), (9_999, 2, 2)]
    ):
        order = random.Random(seed).sample(range(30), 30)
        scores = score_targets(
            NativeEngine(model, form, threads),
            [sources[i] for i in order],
            [targets[i] for i in order],
            batch_tokens=batch_tokens,
            workers=workers,
        )
        rows = [[log_prob.hex() for log_prob in score.token_log_probs] for score in scores]
        found.add(str(sorted(zip(order, rows, strict=True))))
    assert len(found) == 1


@pytest.mark.parametrize("form", FORMS)
def test_what_search_finds_is_scored_as_search_scored_it(tiny_model: Any, form: str) -> None:
    require_kernels()
    engine = NativeEngine(tiny_model(5), form)
    config = SearchConfig(beam_size=5, max_extra_tokens=30, length_normalization="none")
    for source, hypotheses in zip(SOURCES, generate(engine, SOURCES, config, n_best=5), strict=True):
        ended = [h for h in hypotheses if len(h.ids) < len(source) + 31]
        scores = score_targets(engine, [source] * len(ended), [h.ids for h in ended])
        assert len(ended) > 1
        assert [h.score for h in ended] == pytest.approx([score.log_prob for score in scores], abs=1e-5)
