"""Beam search whose steps stay on the device finds what the plain search, and steps with the host, find."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.typing import NDArray
from tests.inference.test_every_variant import VARIANTS
from tests.inference.test_search import PrefixDecoding, Problem, assert_as_plain, problems
from tests.rehearsal.training import MODELS, SIZES, model_of
from tests.tiny import TinyModel
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from allyouneed.config.run import SearchConfig
from allyouneed.inference import torch_engine
from allyouneed.inference.beams import Beams, Hypothesis, SearchRules
from allyouneed.inference.captured_steps import RepeatedStep
from allyouneed.inference.generate import generate
from allyouneed.inference.scheduler import Scheduler, Source, search_of
from allyouneed.inference.search import STEPS_BETWEEN_LOOKS
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.tensor_beams import TensorBeams
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.inference.torch_selection import most_probable
from allyouneed.model.transformer import Transformer

SOURCES = [[5, 9, 10, 6], [6], [7, 7, 8, 5], [4 + n % 6 for n in range(20)]]
SEARCHES: dict[str, dict[str, Any]] = {
    "beam": {},
    "greedy": {"beam_size": 1},
    "one step at most": {"max_length": 1},
    "steps that are no multiple of eight": {"max_length": 11},
    "stopped early": {"early_stopping": True, "length_normalization": "average"},
    "minimum length": {"min_length": 12},
    "restricted": {"min_length": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    "sampled": {"sampling": True},
    "aligned": {"alignments": True, "coverage_penalty": 0.2},
}


class ResidentPrefixDecoding(PrefixDecoding):
    """Logits that a function gives, and steps in tensors."""

    is_resident = True

    def search_on_device(self, beams: Beams, rules: SearchRules, num_steps: int) -> NDArray[np.bool_]:
        assert 1 <= num_steps <= STEPS_BETWEEN_LOOKS
        there = TensorBeams(beams, rules, num_steps, torch.device("cpu"))
        there.load(beams)
        for _ in range(num_steps):
            logits = self.logits(there.last_tokens)
            k = min(rules.num_candidates, logits.size(-1))
            self.reorder(there.advance(*most_probable(logits, k, there.cannot_end())))
        return there.give_back(beams, num_steps)


def log_probs_of(logits: list[float]) -> dict[int, float]:
    """Token -> its log-probability, rounded as it is in these steps, so that ties are ties there too."""
    row = torch.tensor([[logits]])
    log_probs, tokens = most_probable(row, len(logits), torch.tensor([False]))
    return dict(zip(tokens.flatten().tolist(), log_probs.flatten().tolist(), strict=True))


@settings(max_examples=100)
@given(problems(longest=12))
def test_a_resident_search_equals_the_plain_one(problem: Problem) -> None:
    assert_as_plain(problem, ResidentPrefixDecoding, log_probs_of)


def assert_near(found: Sequence[list[Hypothesis]], expected: Sequence[list[Hypothesis]]) -> None:
    for hypotheses, others in zip(found, expected, strict=True):
        assert [h.ids for h in hypotheses] == [h.ids for h in others]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in others], abs=1e-5)
        assert [h.alignment for h in hypotheses] == [h.alignment for h in others]
        for one, other in zip(hypotheses, others, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("name", SEARCHES)
def test_steps_without_the_host_find_what_steps_with_it_find(tiny_model: TinyModel, name: str) -> None:
    """Prefixes, as far as they go, and what else a resident search does not know, take the other way."""
    model, config = tiny_model().eval(), SearchConfig(**{"max_extra_tokens": 10, **SEARCHES[name]})
    options: dict[str, Any] = {"n_best": 1 if name == "greedy" else 2}
    none: list[list[int]] = [[]] * 4
    for prefixes in (none, [[4], [], [5, 6], []] if config.max_length != 1 else none):
        found, expected = (
            list(generate(TorchEngine(model, resident=each), SOURCES, config, **options, prefixes=prefixes))
            for each in (True, False)
        )
        assert_near(found, expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: " ".join(map(str, variant.values())))
def test_every_variant_decodes_without_the_host(variant: dict[str, Any]) -> None:
    model = model_of(**MODELS[" ".join(map(str, variant.values()))]).eval()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.embeddings.parameters():
            parameter.mul_(3)  # rounding must not decide
    config = SearchConfig(max_extra_tokens=30)
    found, expected = (
        list(generate(TorchEngine(model, resident=each), SOURCES, config, n_best=2)) for each in (True, False)
    )
    assert_near(found, expected)


def test_learned_positions_suffice_for_sentences_that_wait_to_leave(tiny_model: TinyModel) -> None:
    """Steps go on after one sentence has reached the last position, until the host looks."""
    model = tiny_model(positions="learned", max_positions=21).eval()
    config, sources = SearchConfig(max_extra_tokens=50, min_length=21), [[5, 9], [6, 7, 8]]
    prefixes = [[4, 5, 6], []]  # lets the sentences go on at different times
    found, expected = (
        list(generate(TorchEngine(model, resident=each), sources, config, prefixes=prefixes))
        for each in (True, False)
    )
    assert [len(hypothesis.ids) for [hypothesis] in found] == [21, 21]
    assert_near(found, expected)


def test_a_resident_search_is_followed_in_pieces_that_end_with_the_whole(tiny_model: TinyModel) -> None:
    engine, config = TorchEngine(tiny_model().eval(), resident=True), SearchConfig(max_extra_tokens=40)
    [[expected]] = generate(engine, SOURCES[:1], config)
    parts: list[Sequence[int]] = []
    with engine.ready(), Scheduler(Batching()) as scheduler:
        work = search_of(Source(SOURCES[0]))
        scheduler.submit(SearchPlan(engine, config), work, watch=lambda _, ids, __: parts.append(ids))
        scheduler.work_off()
    assert parts[-1] == expected.ids
    assert all(part == expected.ids[: len(part)] for part in parts)


def test_a_step_is_repeated_until_another_is_taken() -> None:
    done: list[int] = []
    repeated = RepeatedStep(torch.device("cpu"))
    for number in (1, 2):
        repeated.take(lambda number=number: done.append(number))  # type: ignore[misc]
        for _ in range(3):
            repeated()
    assert done == [1, 1, 1, 2, 2, 2]


class Tape(TorchDispatchMode):
    """What a CUDA graph does, on any device: operators once recorded run again, on the same tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        self._operations.append((function, args, kwargs or {}, found))
        return found

    def replay(self) -> None:
        for function, args, kwargs, found in self._operations:
            again = function(*args, **kwargs)
            for place, value in zip(tree_leaves(found), tree_leaves(again), strict=True):
                if isinstance(place, Tensor) and place.data_ptr() != value.data_ptr():
                    place.copy_(value)


class TapedStep(RepeatedStep):
    """A step that is recorded the second time, and played from then on."""

    num_replays = 0
    _tape: Tape | None = None

    def __call__(self) -> None:
        if self._num_done > 1 and self._tape is not None:
            TapedStep.num_replays += 1
            self._tape.replay()
        elif self._num_done == 1:
            with Tape() as self._tape:
                self._step()
        else:
            self._step()
        self._num_done += 1


@pytest.mark.parametrize(
    "variant",
    [
        *({}, {"autoregression": "ssru"}, {"source_end": False}, {"positions": "learned"}),
        *({"positions": positions} for positions in ("rotary", "alibi", "relative")),
        {"positions": "learned", "neighbourhood": 6},
    ],
    ids=lambda variant: " ".join(map(str, variant.values())),
)
def test_a_step_can_be_replayed_as_its_tensors_stay_in_their_places(
    variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences join and leave, and outputs outgrow their memory, after which a step is recorded anew."""
    model = model_of(**SIZES, **variant).eval()
    assert isinstance(model, Transformer)
    config, batching = SearchConfig(max_extra_tokens=20, min_length=9, beam_size=2), Batching(size=3)
    expected = list(generate(TorchEngine(model, resident=True), SOURCES, config, batching=batching))
    monkeypatch.setattr(torch_engine, "RepeatedStep", TapedStep)
    monkeypatch.setattr(TapedStep, "num_replays", 0)
    found = list(generate(TorchEngine(model, resident=True), SOURCES, config, batching=batching))
    assert TapedStep.num_replays > 10
    assert_near(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("beam_size", [1, 4])
def test_replayed_graphs_find_what_launched_kernels_find(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch, beam_size: int
) -> None:
    model = tiny_model().eval().cuda()
    sources, config = (
        [SOURCES[n % 4] for n in range(64)],
        SearchConfig(max_extra_tokens=60, beam_size=beam_size),
    )
    monkeypatch.setattr(RepeatedStep, "has_failed", False)
    found = list(generate(TorchEngine(model), sources, config))
    assert not RepeatedStep.has_failed  # all were captured
    monkeypatch.setattr(RepeatedStep, "has_failed", True)
    assert_near(found, list(generate(TorchEngine(model), sources, config)))
