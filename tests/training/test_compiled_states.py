"""Batches of fixed sizes, and compiled code, give the gradients of padded batches in eager code."""

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.stores import write_store
from tests.tiny import VOCAB_SIZE
from torch import Tensor

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.data.batch_plans import Batch, make_batch
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.masks import PackedIds
from allyouneed.model.transformer import Transformer
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.symbols import PADDING, UNKNOWN
from allyouneed.training import compiled_states
from allyouneed.training.compiled_states import FixedSizes, reason_not_to_compile
from allyouneed.training.trainer import Corpus, Trainer
from allyouneed.training.update import accumulate_gradient, padded_hidden_states

CPU = torch.device("cpu")
NOT_PACKED = (
    "micro-batches are not packed; from the start of a run that takes {}, and no variant of attention"
)
ROOT = Path(__file__).parents[2]


def padded(lengths: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    columns = np.arange(max(lengths))
    return np.where(columns < np.array(lengths)[:, None], UNKNOWN + 1, PADDING).astype(np.int64)


def batch_of(source: list[int], target: list[int]) -> Batch:
    return Batch(padded(source), padded(target), padded(target), sum(target), np.arange(len(source)))


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int, list[Batch]]:
    """A budget of tokens, the longest sentence, and batches within both."""
    longest = draw(st.integers(1, 60))
    most = draw(st.integers(longest, 2_000))
    found = []
    for _ in range(draw(st.integers(1, 12))):
        rows = draw(st.integers(1, max(1, min(40, most // longest))))
        sides = [draw(st.lists(st.integers(1, longest), min_size=rows, max_size=rows)) for _ in range(2)]
        found.append(batch_of(*sides))
    return most, longest, found


def sentences(packed: PackedIds) -> list[list[int]]:
    return [packed.ids[0, begin:end].tolist() for begin, end in itertools.pairwise(packed.bounds.tolist())]


@given(batches())
def test_batches_are_filled_up_to_one_number_of_tokens_with_sentences_of_padding(
    case: tuple[int, int, list[Batch]],
) -> None:
    most, longest, found = case
    sizes, tokens, numbers = FixedSizes(most, longest), set(), []
    for batch in found:
        source, target = sizes.pack(batch, CPU)
        tokens |= {source.ids.size(1), target.ids.size(1)}
        numbers.append(len(source.bounds) - 1)
        rows = len(batch.pairs)
        for packed, given_ids in ((source, batch.source), (target, batch.target_input)):
            assert packed.bounds[-1] == packed.ids.size(1) == len(packed.positions)
            assert packed.positions.tolist() == [i for each in sentences(packed) for i in range(len(each))]
            assert sentences(packed)[:rows] == [row[row != PADDING].tolist() for row in given_ids]
            fillers = sentences(packed)[rows:]
            assert not any(itertools.chain.from_iterable(fillers))
            assert 1 <= max(map(len, fillers)) <= max(2, longest) == packed.longest
        filled = [[bool(each) for each in sentences(packed)] for packed in (source, target)]
        assert filled[0] == filled[1]  # nothing attends to an empty sentence
    (one,) = tokens
    assert one % 128 == 0
    assert numbers == sorted(numbers)
    assert all(number.bit_count() == 1 for number in numbers)


def test_batches_of_ordinary_lengths_have_three_sizes_at_most_with_little_padding() -> None:
    """Some are nearly full, and one is what is left at the end of the data."""
    sizes, shapes, draw = FixedSizes(26_500, 100), set(), np.random.default_rng(1)
    for rows in [*draw.integers(700, 1_000, 30), 90]:
        source, target = (draw.integers(8, 46, rows).tolist() for _ in range(2))
        packed = sizes.pack(batch_of(source, target), CPU)
        shapes.add((*(side.ids.size(1) for side in packed), len(packed[0].bounds)))
    assert len(shapes) <= 3
    assert max(shapes)[0] <= 1.02 * 26_500


def test_the_gradient_of_a_batch_of_fixed_size_is_that_of_padded_sentences(
    corpus: Corpus, config: RunConfig
) -> None:
    torch.manual_seed(1)
    model = Transformer(config.model.replace(dropout=0.0)).double()
    batch, sizes = make_batch(corpus.train, np.arange(24)), FixedSizes(300, 10)

    def filled(model: EncoderDecoder, batch: Batch, device: torch.device) -> Tensor:
        hidden: Tensor = model(*sizes.pack(batch, device))
        return hidden[0, : batch.num_target_tokens]

    gradients, losses = [], []
    for states in (filled, padded_hidden_states):
        model.zero_grad()
        losses.append(accumulate_gradient(model, batch, batch.num_target_tokens, 0.1, "float32", states))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(*losses, rtol=1e-9, atol=0)
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("training", "model", "reason"),
    [
        ({}, {}, ""),
        ({"compiled": "off", "packed_tokens": 100}, {}, ""),
        ({"packed_tokens": 100}, {}, ""),
        ({"compiled": "on"}, {}, NOT_PACKED.format("training.packed_tokens")),
        (
            {"compiled": "on", "packed_tokens": 100},
            {"feed_forward": "experts", "num_experts": 2, "experts_per_token": 1},
            "the expert of a token depends on its value",
        ),
        ({"compiled": "on", "packed_tokens": 100}, {}, None),
    ],
)
def test_code_is_compiled_where_it_can_be(
    config: RunConfig, training: dict[str, Any], model: dict[str, Any], reason: str | None
) -> None:
    built = Transformer(config.model.replace(**model))
    for num_processes in (1, 2):
        assert reason_not_to_compile(built, TrainingConfig(**training), CPU, num_processes) == reason


def test_several_processes_compile_only_if_told_to(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that compiles answers no other for longer than one that hangs is waited for."""
    for name in ("is_nvidia_since_ampere", "takes_flash"):
        monkeypatch.setattr(compiled_states, name, lambda *given: True)
    model, reasons = Transformer(config.model), []
    for compiled, num_processes in (("auto", 1), ("auto", 2), ("on", 2)):
        training = TrainingConfig().replace(compiled=compiled, packed_tokens=100)
        reasons.append(reason_not_to_compile(model, training, torch.device("cuda"), num_processes))
    told = "the other processes could take one that compiles for one that hangs (training.compiled)"
    assert reasons == [None, told, None]


def test_a_card_that_could_compile_says_what_packing_takes(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_states, "is_nvidia_since_ampere", lambda device: True)
    reason = reason_not_to_compile(Transformer(config.model), TrainingConfig(), torch.device("cuda"), 1)
    assert reason == NOT_PACKED.format("bfloat16 on an NVIDIA GPU")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script saw in a process of its own."""
    if shutil.which("g++") is None:
        pytest.skip("NOT RUN: PyTorch compiles with g++, which is missing")
    return seen_by("train_compiled", tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script saw whose code is only traced."""
    return seen_by("train_traced", tmp_path_factory.mktemp("traced"))


def seen_by(script: str, folder: Path) -> dict[str, Any]:
    """What a script prints about runs on random pairs, in a process of its own."""
    draw = random.Random(1)
    ids = [[draw.randrange(UNKNOWN + 1, VOCAB_SIZE) for _ in range(draw.randint(1, 9))] for _ in range(200)]
    write_store(folder / "data", [(each, each[::-1], 1) for each in ids], vocabulary_size=VOCAB_SIZE)
    command = [sys.executable, "-m", f"tests.training.{script}", str(folder / "run"), str(folder / "data")]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env={**os.environ, **cache})
    assert done.returncode == 0, done.stderr.decode()[-5_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.release
def test_a_compiled_run_has_the_weights_of_one_that_is_not_within_rounding(seen: dict[str, Any]) -> None:
    assert seen["compiled"]["notices"] == []
    difference = np.subtract(seen["compiled"]["weights"], seen["padded"]["weights"])
    assert 0 < np.abs(difference).max() < 1e-4
    assert np.sqrt(np.mean(difference**2)) < 1e-6


@pytest.mark.release
def test_dropout_in_compiled_code_depends_on_the_place_in_the_run_alone(seen: dict[str, Any]) -> None:
    assert seen["dropout"]["the same again"]
    assert seen["dropout"]["another in another step"]
    assert seen["dropout"]["not the masks of eager code"]


@pytest.mark.release
def test_both_passes_of_compiled_code_drop_the_same(seen: dict[str, Any]) -> None:
    """The loss rises along the gradient by its length, which it would not with other masks."""
    assert seen["dropout"]["slope"] == pytest.approx(seen["dropout"]["length of the gradient"], rel=0.02)


@pytest.mark.release
def test_flash_attention_is_in_the_one_graph_that_is_compiled(seen: dict[str, Any]) -> None:
    """Twice in the decoder's layer and once in the encoder's; that it runs needs a GPU."""
    assert seen["flash operators"] == 3


def test_what_cannot_be_compiled_is_computed_without_and_the_log_says_why(
    corpus: Corpus, config: RunConfig, tmp_path: Path
) -> None:
    """The checks of shapes, which tests add to the model, cannot be compiled."""
    packed = {"packed_tokens": 256, "num_steps": 2}
    weights = {}
    for compiled in ("on", "off"):
        (tmp_path / compiled).mkdir()
        given = config.replace(
            model={"dropout": 0.0, "attention_bias": False}, training={**packed, "compiled": compiled}
        )
        trainer = Trainer(given, corpus, RunDirectory(tmp_path / compiled), CPU)
        trainer.train()
        weights[compiled] = [parameter.detach() for parameter in trainer.model.parameters()]
    notices = [
        event["text"] for event in read_log(tmp_path / "on" / "log.jsonl") if event["event"] == "notice"
    ]
    assert len(notices) == 1
    assert notices[0].startswith("not compiled: ")
    assert len(notices[0]) < 220
    torch.testing.assert_close(weights["on"], weights["off"], rtol=0, atol=1e-5)


@pytest.mark.release
def test_each_of_several_runs_in_one_process_is_compiled(traced: dict[str, Any]) -> None:
    for run in traced["several"]:
        assert run["notices"] == []
        assert len(run["sizes"]) == 1


@pytest.mark.release
def test_a_run_with_more_sizes_than_pytorch_compiles_goes_on_without_compiling(
    traced: dict[str, Any],
) -> None:
    (notice,) = traced["too many sizes"]["notices"]
    assert re.match("not compiled: .* recompile limit", notice)
    np.testing.assert_allclose(traced["too many sizes"]["weights"], traced["padded"]["weights"], atol=1e-4)


@pytest.mark.parametrize(
    ("memory", "sizes", "notices"),
    [
        ("for a half", [512, 256], ["at most 200 tokens a side are computed at once"]),
        (
            "for none",
            [512, 256, 128],
            [
                "at most 200 tokens a side are computed at once",
                "at most 100 tokens a side are computed at once",
                "micro-batches are not compiled, which takes less memory",
            ],
        ),
    ],
)
def test_batches_are_filled_up_to_less_after_running_out_of_memory(
    traced: dict[str, Any], memory: str, sizes: list[int], notices: list[str]
) -> None:
    run = traced[f"memory {memory}"]
    assert [tokens for tokens, _ in itertools.groupby(run["sizes"])] == sizes
    assert run["notices"] == [f"out of memory at update 1: from now on {notice}" for notice in notices]
    np.testing.assert_allclose(run["weights"], traced["padded"]["weights"], atol=1e-4)
