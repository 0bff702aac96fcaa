"""The same answer, to the last bit of the score, in any batch, any order and with any number of threads."""

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.kernels import require_kernels

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference import native_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeDecoding, NativeEngine
from allyouneed.inference.search import STEPS_BETWEEN_LOOKS
from allyouneed.inference.search_plan import Batching
from allyouneed.model.transformer import Transformer
from allyouneed.native.library import FORMS
from allyouneed.symbols import UNKNOWN

VOCAB_SIZE = 203


@pytest.fixture(scope="module")
def model() -> Transformer:
    return built()


def built(**settings: Any) -> Transformer:
    """A model of odd sizes, with logits that are neither flat nor certain."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": 60, "d_ff": 90, "num_layers": 2, "num_heads": 3, "d_k": 20, "d_v": 20}
    model = Transformer(
        ModelConfig(source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, **sizes, **settings)
    ).eval()
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(3)
    return model


def sources(num: int) -> list[list[int]]:
    draw = random.Random(num)
    return [
        [draw.randrange(UNKNOWN, VOCAB_SIZE) for _ in range(draw.choice([1, 2, 5, 9, 17, 30]))]
        for _ in range(num)
    ]


def digests(
    model: Transformer, form: str, texts: list[list[int]], batch_sizes: Sequence[int], num_orders: int
) -> set[str]:
    """The sha256 of all outputs and bits of scores, in every batch size, order and number of threads."""
    require_kernels()
    config, found = SearchConfig(max_extra_tokens=5), set()
    for threads in (1, 2):
        engine = NativeEngine(model, form, threads)
        for size in batch_sizes:
            for seed in range(num_orders):
                order = random.Random(seed).sample(range(len(texts)), len(texts))
                windows = 7 if seed == 1 else 4_096
                batching = Batching(size=size, window_sentences=windows, workers=1 + seed % 2)
                results = generate(engine, [texts[i] for i in order], config, n_best=2, batching=batching)
                lines = sorted(
                    f"{i} {[(h.ids, h.score.hex()) for h in hypotheses]}"
                    for i, hypotheses in zip(order, results, strict=True)
                )
                found.add(hashlib.sha256("\n".join(lines).encode()).hexdigest())
    return found


@pytest.mark.parametrize("form", FORMS)
def test_ids_and_scores_do_not_depend_on_batch_order_threads_or_workers(
    model: Transformer, form: str
) -> None:
    assert len(digests(model, form, sources(24), (1, 3, 5, 64), num_orders=2)) == 1


@pytest.mark.parametrize("form", FORMS)
def test_nor_do_those_of_recurrent_units(form: str) -> None:
    model = built(autoregression="ssru", output_bias=True)
    assert len(digests(model, form, sources(12), (1, 5), num_orders=2)) == 1


@pytest.mark.parametrize(
    "search",
    [
        {},
        {"min_length": 4},
        {"min_length": 36},
        {"early_stopping": True, "beam_size": 3},
        {"beam_size": 1},
    ],
    ids=["free", "short", "long", "early", "greedy"],
)
@pytest.mark.parametrize("form", FORMS)
def test_nor_on_whether_a_step_is_one_call(
    model: Transformer, form: str, search: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call skips hypotheses without a future, at the start of a sentence and while it waits to leave.

    A sentence with a prefix makes the batch use separate calls until the prefix is written.
    """
    require_kernels()
    config = SearchConfig(max_extra_tokens=40, **search)
    texts = sources(24)
    prefixes = [[UNKNOWN + 1] if i == 20 else [] for i in range(24)]

    def found() -> list[list[tuple[list[int], str]]]:
        batching = Batching(size=7)
        results = generate(
            NativeEngine(model, form),
            texts,
            config,
            n_best=min(3, config.beam_size),
            prefixes=prefixes,
            batching=batching,
        )
        return [[(h.ids, h.score.hex()) for h in hypotheses] for hypotheses in results]

    in_one_call = found()
    assert max(len(ids) for hypotheses in in_one_call for ids, _ in hypotheses) > 32  # its tables have grown
    steps = []
    whole = NativeDecoding.search

    def counted(decoding: NativeDecoding, *arguments: Any) -> Any:
        steps.append(1)
        return whole(decoding, *arguments)

    monkeypatch.setattr(NativeDecoding, "search", counted)
    assert found() == in_one_call
    assert steps
    monkeypatch.setattr(NativeDecoding, "searches", False)
    assert found() == in_one_call


@pytest.mark.parametrize("size", [1, 3])
def test_nor_on_how_many_steps_are_one_call(
    model: Transformer, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small decoder does up to eight steps of a sentence alone at once; a large one, each by itself."""
    require_kernels()
    calls: list[int] = []
    whole = NativeDecoding.search

    def counted(decoding: NativeDecoding, *arguments: Any) -> Any:
        calls.append(arguments[-1])
        return whole(decoding, *arguments)

    def found() -> list[tuple[list[int], str]]:
        calls.clear()
        batching = Batching(size=size, workers=1)
        results = generate(
            NativeEngine(model), sources(9), SearchConfig(max_extra_tokens=40), batching=batching
        )
        return [(best.ids, best.score.hex()) for [best] in results]

    monkeypatch.setattr(NativeDecoding, "search", counted)
    at_once = found()
    assert max(calls) == STEPS_BETWEEN_LOOKS if size == 1 else max(calls) > 1  # fewer are left at the end
    num_calls = len(calls)
    monkeypatch.setattr(native_engine, "_SMALL_DECODER", 0)
    assert found() == at_once
    assert set(calls) == {1}
    assert len(calls) > num_calls


@pytest.mark.release
@pytest.mark.parametrize("form", FORMS)
def test_neither_do_those_of_five_hundred_sentences(model: Transformer, form: str) -> None:
    assert len(digests(model, form, sources(500), (1, 2, 3, 5, 8, 13, 32, 64), num_orders=3)) == 1
