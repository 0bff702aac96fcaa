"""Alignments and coverage are read off the right weights, by formulas that can be checked by hand."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels import require_kernels

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference import alignment
from allyouneed.inference.alignment import (
    align,
    align_words,
    alignment_heads,
    coverage_penalty,
    looking_back,
)
from allyouneed.inference.attention_weights import capture_attention
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import EncodedSources, NativeEngine
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.source_attention import source_attention
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.transformer import Transformer
from allyouneed.native.library import FORMS
from allyouneed.symbols import END

SOURCE = [5, 6, 7, 8]
TARGETS = [[9, 10], [4, 4, 9, 5, 6], []]
SOURCES = [[5, 6, 7, 8], [9], [4, 10, 4], [8, 7, 6, 5, 4, 9, 10, 5]]


def attention_of(model: Any, layer: int | None = None, head: int | None = None) -> Any:
    """The attention of targets to a source, as tensors."""
    heads = alignment_heads(model.config, layer, head)

    def attend(source: list[int], targets: list[list[int]]) -> list[torch.Tensor]:
        [found] = source_attention(model, *heads, [source], [targets])
        return [*map(torch.from_numpy, found)]

    return attend


@pytest.mark.parametrize(
    ("num_layers", "asked", "read"),
    [(1, None, 1), (2, None, 2), (3, None, 2), (4, None, 3), (4, 1, 1), (4, 4, 4)],
)
@pytest.mark.parametrize("head", [None, 1, 3])
def test_the_weights_are_those_of_a_forward_pass(
    tiny_model: Any, num_layers: int, asked: int | None, read: int, head: int | None
) -> None:
    model = tiny_model(num_layers=num_layers).eval()
    with torch.no_grad():
        found = attention_of(model, asked, head)(SOURCE, TARGETS)
    for weights, target in zip(found, TARGETS, strict=True):
        of_layer = capture_attention(model, SOURCE, target).cross[read - 1, :, :, :-1]
        expected = of_layer.mean(dim=0) if head is None else of_layer[head - 1]
        torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "unscaled"},
        {"attention": "additive", "norm": "pre"},
        {"attention_dropout": 0.5, "feed_forward": "parameters"},
        {"decoder_start": "zeros", "target_space": True},
    ],
    ids=str,
)
def test_the_weights_of_a_variant_are_those_of_its_forward_pass(
    tiny_model: Any, settings: dict[str, Any]
) -> None:
    model = tiny_model(num_layers=3, **settings).eval()
    with torch.no_grad():
        found = attention_of(model)(SOURCE, TARGETS)
    for weights, target in zip(found, TARGETS, strict=True):
        expected = capture_attention(model, SOURCE, target).cross[1, :, :, :-1].mean(dim=0)
        torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("setting", ["alignment_layer", "alignment_head"])
def test_a_layer_or_head_that_the_model_has_not_is_refused_at_once(tiny_model: Any, setting: str) -> None:
    model = tiny_model(num_layers=3, num_heads=3)
    with pytest.raises(UsageError, match=f"search.{setting} = 4: the model's decoder has 3"):
        generate(TorchEngine(model), [[5]], SearchConfig().replace(**{setting: 4}))


def test_each_source_token_goes_to_the_target_token_that_takes_most_of_it() -> None:
    weights = torch.tensor(
        [
            [0.7, 0.2, 0.1],  # writes token 0
            [0.1, 0.5, 0.1],  # writes token 1
            [0.1, 0.4, 0.1],  # writes token 2
            [0.9, 0.9, 0.9],  # writes the end
        ]
    )
    assert align(weights.numpy()) == [(0, 0), (1, 1), (2, 0)]
    assert align(weights[-1:].numpy()) == []


def test_words_are_linked_where_pieces_of_them_are() -> None:
    source_words, target_words = [0, 0, 1, None, 2], [0, 1, 1, None]
    links = [(0, 1), (1, 2), (2, 0), (3, 0), (4, 3)]
    assert align_words(links, source_words, target_words) == [(0, 1), (1, 0)]


def test_coverage_penalty_equals_equation_14_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.125, 0.25], [0.25, 0.125, 0.75]])  # columns sum to 3/4, 1/4 and 1
    assert coverage_penalty(weights.numpy(), 0.5) == pytest.approx(0.5 * (math.log(3 / 4) + math.log(1 / 4)))
    assert coverage_penalty(torch.cat([weights, weights]).numpy(), 1.0) == pytest.approx(math.log(1 / 2))
    assert coverage_penalty(weights.numpy(), 0.0) == 0.0
    assert math.isfinite(coverage_penalty(np.zeros((2, 3), np.float32), 1.0))


@pytest.fixture(scope="module")
def model(tiny_model: Any) -> Transformer:
    built: Transformer = tiny_model(4).eval()
    return built


@functools.cache
def log_coverage(model: Transformer, source: tuple[int, ...], ids: tuple[int, ...]) -> float:
    """The sum over the tokens of a source of the logarithm of the attention that they get, at most 1."""
    weights = capture_attention(model, source, ids).cross[-1, :, :, :-1].mean(dim=0)
    return sum(math.log(min(sum(column), 1.0)) for column in weights.T.tolist())


@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_hypotheses_are_ranked_by_their_score_with_the_penalty(model: Transformer, beta: float) -> None:
    config = SearchConfig(beam_size=4, max_extra_tokens=4)
    without = list(generate(TorchEngine(model), SOURCES, config, n_best=4))
    expected = []
    for source, hypotheses in zip(SOURCES, without, strict=True):
        scores = {}
        for hypothesis in hypotheses:
            ids = tuple(hypothesis.ids)
            scores[ids] = hypothesis.score + beta * log_coverage(model, tuple(source), ids)
        expected.append(sorted(scores.items(), key=lambda item: -item[1]))
    config = config.replace(coverage_penalty=beta)
    for n_best in (1, 4):
        found = list(generate(TorchEngine(model), SOURCES, config, n_best=n_best))
        for hypotheses, best in zip(found, expected, strict=True):
            assert [tuple(h.ids) for h in hypotheses] == [ids for ids, _ in best[:n_best]]
            assert [h.score for h in hypotheses] == pytest.approx([s for _, s in best[:n_best]], abs=1e-4)
    if beta == 2.0:
        assert any(best[0][0] != tuple(h[0].ids) for best, h in zip(expected, without, strict=True))


def test_alignments_are_there_only_if_asked_for_and_change_nothing_else(tiny_model: Any) -> None:
    engine, config = TorchEngine(tiny_model(1)), SearchConfig(max_extra_tokens=4)
    without = list(generate(engine, SOURCES, config, n_best=2))
    found = list(generate(engine, SOURCES, config.replace(alignments=True), n_best=2))
    for source, some, others in zip(SOURCES, without, found, strict=True):
        for plain, aligned in zip(some, others, strict=True):
            assert (plain.ids, plain.score, plain.alignment) == (aligned.ids, aligned.score, [])
            assert [i for i, _ in aligned.alignment] == (list(range(len(source))) if aligned.ids else [])
            assert all(0 <= j < len(aligned.ids) for _, j in aligned.alignment)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_layers": 3},
        {"num_layers": 1, "norm": "pre"},
        {"num_layers": 4, "autoregression": "ssru"},
        {"num_layers": 3, "positions": "rotary", "source_end": False},
        {"num_layers": 2, "positions": "learned", "max_positions": 6, "decoder_start": "zeros"},
    ],
    ids=str,
)
def test_the_kernels_compute_the_weights_of_pytorch(tiny_model: Any, settings: dict[str, Any]) -> None:
    require_kernels()
    model = tiny_model(**settings).eval()
    for layer, head in ((None, None), (1, 2), (settings["num_layers"], None)):
        heads = alignment_heads(model.config, layer, head)
        expected = source_attention(model, *heads, [SOURCE], [TARGETS])[0]
        found = NativeEngine(model).source_attention(*heads, [SOURCE], [TARGETS])[0]
        for weights, others in zip(found, expected, strict=True):
            assert weights == pytest.approx(others, abs=1e-5)


def test_sources_together_have_the_weights_of_each_alone(tiny_model: Any) -> None:
    require_kernels()
    engine = NativeEngine(tiny_model(num_layers=3).eval())
    sources, targets = [SOURCE, [7], [5, 6, 8, 9, 4]], [TARGETS, [[6]], [[4, 4], [5, 6, 7]]]
    for layer in (0, 2):
        together = engine.source_attention(layer, slice(None), sources, targets)
        for source, its, found in zip(sources, targets, together, strict=True):
            [alone] = engine.source_attention(layer, slice(None), [source], [its])
            assert len(found) == len(alone) == len(its)
            assert all(np.array_equal(one, other) for one, other in zip(found, alone, strict=True))


def test_sources_that_are_known_are_not_encoded_again(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_kernels()
    engine = NativeEngine(tiny_model(num_layers=3).eval())
    sources, targets = [SOURCE, [7], [5, 6, 8]], [TARGETS, [[6]], [[4, 4]]]
    expected = engine.source_attention(2, slice(None), sources, targets)
    known, encode, read = EncodedSources(), engine.encode, list[list[int]]()
    for source in (sources[0], sources[2]):
        known.add([*source, END], encode([[*source, END]]))

    def noting(given: list[list[int]]) -> Any:
        read.extend(given)
        return encode(given)

    monkeypatch.setattr(engine, "encode", noting)
    found = engine.source_attention(2, slice(None), sources, targets, known)
    assert read == [[7, END]]
    for its, others in zip(found, expected, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(its, others, strict=True))
    assert known.take([*SOURCE, END]) is None


def test_hypotheses_are_aligned_in_parts_and_those_of_no_output_are_left(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_kernels()
    engine = NativeEngine(tiny_model().eval())
    look_back = looking_back(engine, SearchConfig(alignments=True), 1)
    ended = [([*SOURCE, END], [Hypothesis([5, 6], 0.0)]), ([7, END], []), ([5, END], [Hypothesis([8], 0.0)])]
    whole = look_back(ended)
    monkeypatch.setattr(alignment, "_MOST_TOKENS", 1)
    assert look_back(ended) == whole
    assert [[len(each.alignment) for each in its] for its in whole] == [[len(SOURCE)], [], [1]]


@pytest.mark.parametrize("form", FORMS)
def test_scores_and_alignments_do_not_depend_on_batch_or_workers(tiny_model: Any, form: str) -> None:
    require_kernels()
    engine = NativeEngine(tiny_model(2), form)
    config = SearchConfig(coverage_penalty=0.3, alignments=True, max_extra_tokens=5)
    found = {
        str([(h.ids, h.score.hex(), h.alignment) for hypotheses in batches for h in hypotheses])
        for size in (1, 3, 8)
        for workers in (1, 2)
        for batches in [
            list(
                generate(engine, SOURCES * 2, config, n_best=2, batching=Batching(size=size, workers=workers))
            )
        ]
    }
    assert len(found) == 1


def test_an_ensemble_looks_back_with_the_mean_of_its_members_attentions(tiny_model: Any) -> None:
    models = [tiny_model(seed).eval() for seed in (5, 6)]
    source, config = SOURCES[0], SearchConfig(beam_size=3, max_extra_tokens=4)
    ensemble = Ensemble([TorchEngine(model) for model in models])
    [[plain, *_]] = generate(ensemble, [source], config.replace(beam_size=1))
    [[best]] = generate(ensemble, [source], config.replace(beam_size=1, coverage_penalty=1.0))
    with torch.no_grad():
        first, second = (attention_of(model)(source, [plain.ids])[0] for model in models)
    assert best.score == pytest.approx(
        plain.score + coverage_penalty(((first + second) / 2).numpy(), 1.0), abs=1e-4
    )


@pytest.mark.parametrize("settings", [{"alignments": True}, {"coverage_penalty": 0.2}])
def test_outputs_that_end_where_the_learned_positions_do_are_looked_back_at(
    tiny_model: Any, settings: dict[str, Any]
) -> None:
    model = tiny_model(positions="learned", max_positions=7).eval()
    config = SearchConfig(max_extra_tokens=50, **settings)
    [found] = generate(TorchEngine(model), [[5, 6, 7, 8, 9]], config, n_best=3)
    assert max(len(hypothesis.ids) for hypothesis in found) == 7
    assert all(math.isfinite(hypothesis.score) for hypothesis in found)
    whole = attention_of(model)([5, 6], [[5] * 7])[0]
    part = attention_of(model)([5, 6], [[5] * 6])[0]
    assert whole.shape == (8, 2)
    torch.testing.assert_close(whole[:7], part)
    assert not whole[7].any()
