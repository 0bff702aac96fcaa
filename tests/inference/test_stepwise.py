"""Stepwise models in search: sentences join and leave, and nobody's company matters."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.conftest import next_logits

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.attention_weights import capture_attention
from allyouneed.inference.engine_choice import build_engine, build_engines, unknown_part
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.stepwise import StepwiseEngine
from allyouneed.model.architectures import ARCHITECTURES
from allyouneed.model.encoder_decoder import StepwiseModel
from allyouneed.model.rivals.convolution import Convolution
from allyouneed.symbols import END, START

RIVALS: dict[str, dict[str, Any]] = {
    "recurrent": {"architecture": "recurrent"},
    "experts": {"architecture": "recurrent", "feed_forward": "experts", "num_experts": 4, "d_ff": 9},
    "convolutional": {"architecture": "convolutional", "positions": "learned", "max_positions": 60},
    "bytenet": {"architecture": "bytenet", "num_layers": 3},
}


def build(**settings: Any) -> StepwiseModel:
    torch.manual_seed(0)
    config = ModelConfig(
        **{"source_vocab_size": 11, "target_vocab_size": 11, "d_model": 12, "num_layers": 2, **settings}
    )
    model = ARCHITECTURES[config.architecture](config)
    assert isinstance(model, StepwiseModel)
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(4)  # so that rounding decides nothing
    return model.double().eval()


@pytest.fixture(params=RIVALS)
def model(request: pytest.FixtureRequest) -> StepwiseModel:
    """Each rival."""
    return build(**RIVALS[request.param])


@torch.no_grad()
def test_steps_equal_the_whole_prefix_while_sentences_join_and_leave(model: StepwiseModel) -> None:
    draw, num_beams = random.Random(1), 3
    sources = [[7, 5, 9, 4, 6, END], [8, END], [4, 4, 10, END], [8, END]]
    engine = build_engine(model)
    assert isinstance(engine, StepwiseEngine)
    decoding = engine.start(num_beams)
    decoding.admit(sources)
    prefixes: list[list[list[int]]] = [[[] for _ in range(num_beams)] for _ in sources]
    for position in range(24):
        tokens = [[draw.randrange(11) if prefix else START for prefix in beams] for beams in prefixes]
        prefixes = [
            [[*prefix, token] for prefix, token in zip(beams, new, strict=True)]
            for beams, new in zip(prefixes, tokens, strict=True)
        ]
        logits = next_logits(decoding, tokens)
        for beams, source, found in zip(prefixes, sources, logits, strict=True):
            hidden = model(torch.tensor([source] * num_beams), torch.tensor(beams))
            torch.testing.assert_close(found, model.project(hidden[:, -1]))
        parents = [[draw.randrange(num_beams) for _ in beams] for beams in prefixes]
        decoding.reorder(np.array(parents))
        prefixes = [[beams[b] for b in new] for beams, new in zip(prefixes, parents, strict=True)]
        if position in (5, 18):
            kept = [2, 0, 3, 2] if position == 5 else [1, 2, 1]
            decoding.keep(np.array(kept))
            prefixes, sources = [prefixes[s] for s in kept], [sources[s] for s in kept]
        if position in (6, 12, 19):
            admitted = [[6, 6, 5, END], [9, 10, 4, 5, 7, 8, END]]
            decoding.admit(admitted)
            prefixes += [[[] for _ in range(num_beams)] for _ in admitted]
            sources += admitted
    decoding.keep(np.array([], np.int64))
    decoding.admit([[5, END]])
    assert next_logits(decoding, np.full((1, num_beams), START)).shape == (1, num_beams, 11)


def test_steps_compute_no_weight_and_the_model_stays_as_it_was(model: StepwiseModel) -> None:
    names = set(model.state_dict())
    engine = build_engine(model)
    assert {id(parameter) for parameter in engine.models[0].parameters()} == {
        id(p) for p in model.parameters()
    }
    convolutions = [part for part in model.modules() if isinstance(part, Convolution)]
    of_engine = [part for part in engine.models[0].modules() if isinstance(part, Convolution)]
    assert len(of_engine) == len(convolutions)
    assert all(part.frozen is not None for part in of_engine)
    assert all(part.frozen is None for part in convolutions), "it may be trained further"
    assert set(model.state_dict()) == set(engine.models[0].state_dict()) == names


def test_none_can_be_kept_before_any_is_admitted(model: StepwiseModel) -> None:
    decoding = StepwiseEngine(model).start(2)
    decoding.keep(np.empty(0, np.int64))
    decoding.admit([[5, END]])
    assert next_logits(decoding, np.full((1, 2), START)).shape[:2] == (1, 2)


def test_answers_do_not_depend_on_batch_size_or_order(model: StepwiseModel) -> None:
    draw = random.Random(2)
    texts = [[draw.randrange(5, 11) for _ in range(draw.choice([1, 2, 5, 9]))] for _ in range(16)]
    engine, config, found = build_engine(model.float()), SearchConfig(max_extra_tokens=6), []
    for size, seed in ((1, 0), (3, 1), (7, 2), (64, 3)):
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        results = generate(engine, [texts[i] for i in order], config, n_best=2, batching=Batching(size=size))
        by_text = dict(zip(order, results, strict=True))
        found.append([by_text[i] for i in range(len(texts))])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            assert [h.ids for h in one] == [h.ids for h in same]
            assert [h.score for h in one] == pytest.approx([h.score for h in same], abs=1e-5)


@torch.no_grad()
def test_the_score_of_an_output_is_that_of_forced_decoding(model: StepwiseModel) -> None:
    engine = build_engine(model)
    source = [5, 7, 9]
    [[best]] = generate(engine, [source], SearchConfig(max_extra_tokens=8, length_normalization="none"))
    ended = len(best.token_log_probs) == len(best.ids) + 1
    [scored] = score_targets(engine, [source], [best.ids])
    assert best.token_log_probs == pytest.approx(
        scored.token_log_probs[: len(best.token_log_probs)], abs=1e-5
    )
    assert ended or len(best.ids) == len(source) + 1 + 8
    written = torch.tensor([[START, *best.ids]])
    hidden = model(torch.tensor([[*source, END]]), written)[0]
    rows = model.project(hidden).log_softmax(dim=-1)
    expected = rows.gather(1, torch.tensor([*best.ids, END])[:, None])[:, 0]
    assert scored.token_log_probs == pytest.approx(expected.tolist(), abs=1e-5)


@torch.no_grad()
def test_an_ensemble_of_a_rival_and_a_transformer_has_the_mean_probability(
    model: StepwiseModel, tiny_model: Any
) -> None:
    members = [model.float(), tiny_model().eval()]
    ensemble, workers = build_engines(members, "float32", 1)
    assert isinstance(ensemble, Ensemble)
    assert workers == 1
    probabilities = []
    for member in members:
        logits = member.project(member(torch.tensor([[5, 7, END]]), torch.tensor([[START]])))
        probabilities.append(logits[0, 0].softmax(-1))
    decoding = ensemble.start(2)
    decoding.admit([[5, 7, END]])
    found = next_logits(decoding, np.full((1, 2), START))[0, 0].exp()
    torch.testing.assert_close(found, sum(probabilities) / 2, atol=1e-5, rtol=1e-4)
    [[best]] = generate(ensemble, [[5, 7]], SearchConfig(length_normalization="none"))
    assert best.score == pytest.approx(score_targets(ensemble, [[5, 7]], [best.ids])[0].log_prob, abs=1e-4)


def test_bfloat16_is_computed_and_int8_refused(model: StepwiseModel) -> None:
    assert unknown_part(model) is not None
    engine = build_engine(model.float(), "bfloat16")
    assert next(engine.models[0].parameters()).dtype == torch.bfloat16
    [hypotheses] = generate(engine, [[5, 7]], SearchConfig(max_extra_tokens=5))
    assert hypotheses[0].score > -20
    with pytest.raises(UsageError, match="do not support a part of this model"):
        build_engine(model, "int8")


def test_what_looks_into_the_attention_of_a_transformer_refuses_a_rival(model: StepwiseModel) -> None:
    for settings in ({"alignments": True}, {"coverage_penalty": 0.2}):
        with pytest.raises(UsageError, match="attention of a Transformer"):
            generate(build_engine(model), [[5]], SearchConfig(**settings))
    with pytest.raises(UsageError, match=r"model\.architecture = "):
        capture_attention(model, [5], [6])
