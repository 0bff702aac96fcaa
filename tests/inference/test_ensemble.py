"""An ensemble gives each token the mean of its members' probabilities, in search, sampling and scoring."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.conftest import next_logits
from tests.kernels import require_kernels
from torch import Tensor

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, START, UNKNOWN

SHAPES: list[dict[str, Any]] = [{}, {"d_model": 16, "num_heads": 2, "num_layers": 1}, {"d_ff": 8, "d_k": 5}]
SOURCES = [[5, 6, 7], [9], [10, 4, 4, 8, 5], [6, 6]]
CONFIG = SearchConfig(beam_size=4, max_extra_tokens=6)


@pytest.fixture
def models(tiny_model: Any) -> list[Transformer]:
    return [tiny_model(seed, **shape).eval() for seed, shape in enumerate(SHAPES)]


@pytest.fixture
def ensemble(models: list[Transformer]) -> Ensemble:
    return Ensemble([build_engine(model) for model in models])


def mean_probabilities(models: list[Transformer], source: list[int], written: list[int]) -> Tensor:
    """Of every next token after each prefix, by the plain models: (written, vocab)."""
    with torch.no_grad():
        logits = [
            model.project(model(torch.tensor([[*source, END]]), torch.tensor([[START, *written]])))[0]
            for model in models
        ]
    return torch.stack([x.double().softmax(dim=-1) for x in logits]).mean(dim=0)


def log_prob(models: list[Transformer], source: list[int], output: list[int]) -> float:
    """Of an output with what ends it."""
    probabilities = mean_probabilities(models, source, output[:-1])
    return sum(float(row[token].log()) for row, token in zip(probabilities, output, strict=True))


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> bool:
    scores, others = ([h.score for hs in results for h in hs] for results in (found, expected))
    assert scores == pytest.approx(others, abs=1e-5)
    return [[h.ids for h in hs] for hs in found] == [[h.ids for h in hs] for hs in expected]


def test_a_step_gives_the_logarithm_of_the_mean_probabilities(
    models: list[Transformer], ensemble: Ensemble
) -> None:
    written = [5, 7, 4]
    decoding = ensemble.start(1)
    decoding.admit([[*source, END] for source in SOURCES])
    found = torch.stack(
        [next_logits(decoding, np.full((len(SOURCES), 1), token))[:, 0] for token in (START, *written)], dim=1
    )
    for rows, source in zip(found, SOURCES, strict=True):
        expected = mean_probabilities(models, source, written).log()
        torch.testing.assert_close(rows.double(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("sampling", [False, True])
def test_scores_of_outputs_are_those_of_the_mean_probabilities(
    models: list[Transformer], ensemble: Ensemble, sampling: bool
) -> None:
    config = CONFIG.replace(sampling=sampling, length_normalization="none")
    for source, hypotheses in zip(SOURCES, generate(ensemble, SOURCES, config, n_best=4), strict=True):
        for hypothesis in hypotheses:
            ended = len(hypothesis.ids) < len(source) + 1 + CONFIG.max_extra_tokens
            output = [*hypothesis.ids, END] if ended else hypothesis.ids
            assert hypothesis.score == pytest.approx(log_prob(models, source, output), abs=1e-5)


def test_search_finds_the_best_of_all_outputs(tiny_model: Any) -> None:
    models = [tiny_model(seed, vocab_size=7).eval() for seed in (0, 1)]
    outputs = [
        [*ids, END][:3] for length in range(4) for ids in itertools.product(range(UNKNOWN, 7), repeat=length)
    ]
    ended = [output for output in outputs if output[-1] == END]  # others are cut, and come after these
    best = max(ended, key=lambda output: log_prob(models, [5, 4], output))
    config = SearchConfig(beam_size=27, max_extra_tokens=0, length_normalization="none")
    [[found]] = generate(Ensemble([build_engine(model) for model in models]), [[5, 4]], config)
    assert [*found.ids, END][:3] == best


def test_forced_decoding_gives_the_logarithm_of_the_mean_probability_of_each_token(
    models: list[Transformer], ensemble: Ensemble
) -> None:
    targets = [[8, 4], [7, 7, 7, 5], [], [9, 10]]
    for source, target, score in zip(
        SOURCES, targets, score_targets(ensemble, SOURCES, targets), strict=True
    ):
        rows = mean_probabilities(models, source, target)
        expected = [float(row[token].log()) for row, token in zip(rows, [*target, END], strict=True)]
        assert score.token_log_probs == pytest.approx(expected, abs=2e-5)


def test_a_model_with_itself_is_the_model(models: list[Transformer]) -> None:
    engine = build_engine(models[0])
    alone, twice = (list(generate(e, SOURCES, CONFIG, n_best=4)) for e in (engine, Ensemble([engine] * 2)))
    assert same(twice, alone)
    scores, others = (score_targets(e, SOURCES, SOURCES) for e in (engine, Ensemble([engine] * 2)))
    for score, other in zip(scores, others, strict=True):
        assert score.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_the_members_and_their_order_matter_as_they_should(ensemble: Ensemble) -> None:
    config = CONFIG.replace(min_length=4)  # empty outputs are alike
    found = list(generate(ensemble, SOURCES, config, n_best=4))
    for engines in itertools.permutations(ensemble.engines):
        assert same(list(generate(Ensemble(engines), SOURCES, config, n_best=4)), found)
    for engine in ensemble.engines:
        assert [h.ids for [h] in generate(engine, SOURCES, config)] != [hs[0].ids for hs in found]


@pytest.mark.parametrize("times", [1, 2])
def test_ids_and_bits_of_scores_do_not_depend_on_the_batch(ensemble: Ensemble, times: int) -> None:
    """Sums of more than four numbers over a dimension would."""
    require_kernels()
    ensemble = Ensemble([*ensemble.engines] * times)
    assert all(isinstance(engine, NativeEngine) for engine in ensemble.engines)
    choose = random.Random(2)
    sources = [[choose.randrange(UNKNOWN, 11) for _ in range(choose.choice([1, 4, 9]))] for _ in range(20)]
    expected = list(generate(ensemble, sources, CONFIG, n_best=2))
    for batch_size in (1, 3, 8):
        found = list(
            generate(ensemble, sources[::-1], CONFIG, n_best=2, batching=Batching(size=batch_size, workers=2))
        )
        assert found[::-1] == expected
    scores = list(score_targets(ensemble, sources, sources[::-1]))
    for source, target, score in zip(sources, sources[::-1], scores, strict=True):
        assert list(score_targets(ensemble, [source], [target])) == [score]


def test_the_shortest_of_the_members_positions_bounds_all(tiny_model: Any) -> None:
    learned = [TorchEngine(tiny_model(positions="learned", max_positions=n)) for n in (9, 7)]
    assert Ensemble([*learned, TorchEngine(tiny_model())]).max_positions == 7
    assert Ensemble([TorchEngine(tiny_model())]).max_positions is None


def test_every_member_is_left_in_the_mode_that_it_was_in(models: list[Transformer]) -> None:
    models[1].train()
    list(generate(Ensemble([TorchEngine(model) for model in models]), SOURCES, CONFIG))
    assert [{module.training for module in model.modules()} for model in models] == [{False}, {True}, {False}]


@pytest.mark.parametrize("order", [1, -1])
def test_members_may_have_different_engines(models: list[Transformer], order: int) -> None:
    require_kernels()
    for config in (CONFIG, CONFIG.replace(repetition_penalty=1.3), CONFIG.replace(sampling=True, seed=2)):
        members = [NativeEngine(models[0]), TorchEngine(models[1])][::order]
        found = list(generate(Ensemble(members), SOURCES, config))
        expected = list(
            generate(Ensemble([TorchEngine(each) for each in models[:2]][::order]), SOURCES, config)
        )
        assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in expected]
