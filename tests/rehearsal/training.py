"""Training on the pretended device: the CPU's results, no hidden wait, and the same bits again."""

import copy
import gc
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.test_every_variant import VARIANTS
from tests.model.rivals.conftest import RIVALS
from tests.rehearsal.backend import Rehearsal
from tests.training import conftest as of_training
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import base
from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Batch, make_batch
from allyouneed.hardware.machine import environment, matmul_peak
from allyouneed.hardware.memory import memory_bytes
from allyouneed.model.architectures import build_model
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.experts import Experts
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs import run_configuration
from allyouneed.runs.run_configuration import completed, run_config
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.run_log import read_log
from allyouneed.training import trainer as trainer_module
from allyouneed.training.learner import Learner
from allyouneed.training.memory_estimate import chunk_elements, training_memory
from allyouneed.training.meters import Interval, validation_loss
from allyouneed.training.optimizer import build_optimizer
from allyouneed.training.trainer import Corpus, Trainer
from allyouneed.training.update import (
    FiniteWatch,
    Gradients,
    accumulate_gradient,
    seed_generators,
    use_fastest_operators,
)

corpus = of_training.corpus
VOCAB_SIZE = 16
VOCABULARIES: dict[str, Any] = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
SIZES: dict[str, Any] = {
    **{"d_model": 24, "d_ff": 32, "num_layers": 2, "num_heads": 3, "dropout": 0.0},
    **{"max_positions": 90, "max_distance": 4, "parameter_pairs": 9, "num_experts": 4},
}
MODELS: dict[str, dict[str, Any]] = {
    **{" ".join(map(str, variant.values())): {**SIZES, **variant} for variant in VARIANTS},
    **{name: {"d_model": 12, "num_layers": 3, "dropout": 0.0, **rival} for name, rival in RIVALS.items()},
}
WITH_DROPOUT = {"dropout": 0.2, "attention_dropout": 0.1, "symbol_dropout": 0.1}


@pytest.fixture
def batch(corpus: Corpus) -> Batch:
    return make_batch(corpus.train, torch.arange(20).numpy())


def model_of(**settings: Any) -> EncoderDecoder:
    torch.manual_seed(1)
    return build_model(ModelConfig(**VOCABULARIES, **(settings or SIZES)))


class Updates:
    """The updates of a model on a device, as a run makes them."""

    def __init__(self, model: EncoderDecoder, config: RunConfig, precision: Any = "float32") -> None:
        self.model, self._precision = model.train(), precision
        use_fastest_operators(model, config.training.replace(precision=precision))
        parameters = list(model.parameters())
        self._gradients, self._optimizer = Gradients(parameters), build_optimizer(model, config.training)
        self._watch = FiniteWatch(self._optimizer, parameters[0].device)
        self._interval = Interval(parameters[0].device)

    def make(self, batch: Batch, num_updates: int, scale: float = 1.0) -> None:
        for step in range(1, num_updates + 1):
            seed_generators(1, step, 0)
            self._gradients.clear()
            self._gradients.loss += scale * accumulate_gradient(
                self.model, batch, batch.num_target_tokens, 0.1, self._precision
            )
            self._optimizer.param_groups[0]["lr"] = 0.01
            self._watch.update(self._gradients.buffer, step)
            self._interval.add(self._gradients.loss, batch.num_target_tokens, 0)

    @property
    def loss(self) -> float:
        """Mean over the updates, in nats per token."""
        loss = self._interval.read().loss
        return math.nan if loss is None else loss

    def weights(self) -> list[Tensor]:
        return [parameter.detach().cpu() for parameter in self.model.parameters()]


def updated(
    rehearsal: Rehearsal, model: EncoderDecoder, batch: Batch, config: RunConfig, **options: Any
) -> Updates:
    """Three updates on the device, which wait for nothing but how many tokens each expert has."""
    updates = Updates(copy.deepcopy(model).to(rehearsal.device), config, **options)
    num_experts = sum(isinstance(module, Experts) for module in model.modules())
    rehearsal.forbid_waits(not num_experts)
    before = rehearsal.num_waits
    updates.make(batch, 3)
    rehearsal.forbid_waits(False)
    assert rehearsal.num_waits - before == 3 * num_experts
    return updates


@pytest.mark.parametrize("name", MODELS)
def test_updates_of_every_model_equal_the_cpus_and_wait_for_nothing(
    rehearsal: Rehearsal, batch: Batch, config: RunConfig, name: str
) -> None:
    model = model_of(**MODELS[name])
    expected = Updates(copy.deepcopy(model), config)
    expected.make(batch, 3)
    found = updated(rehearsal, model, batch, config)
    assert found.loss == pytest.approx(expected.loss, rel=1e-4)


def test_the_gradient_is_the_cpus(rehearsal: Rehearsal, batch: Batch) -> None:
    model = model_of().train()
    here = copy.deepcopy(model).to(rehearsal.device)
    for each in (model, here):
        accumulate_gradient(each, batch, batch.num_target_tokens, 0.1, "float32")
    for parameter, other in zip(here.parameters(), model.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), other.grad, rtol=1e-4, atol=1e-6)


def test_updates_in_bfloat16_are_near_those_in_float32(
    rehearsal: Rehearsal, batch: Batch, config: RunConfig
) -> None:
    losses = [
        updated(rehearsal, model_of(), batch, config, precision=precision).loss
        for precision in ("float32", "bfloat16")
    ]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_dropout_draws_from_the_devices_generator_which_is_seeded_by_position(
    rehearsal: Rehearsal, batch: Batch, config: RunConfig
) -> None:
    first, again = (
        updated(rehearsal, model_of(**{**SIZES, **WITH_DROPOUT}), batch, config) for _ in range(2)
    )
    assert all(map(torch.equal, first.weights(), again.weights()))
    seed_generators(1, 1, 0)
    drawn = torch.rand(5, device=rehearsal.device)
    assert not torch.equal(drawn.cpu(), torch.rand(5, device=rehearsal.device).cpu())
    seed_generators(1, 1, 0)
    matmul_peak(rehearsal.device, "float32", 8)  # has a generator of its own
    assert torch.equal(drawn.cpu(), torch.rand(5, device=rehearsal.device).cpu())


def test_an_update_that_is_not_finite_changes_no_weight_and_waits_for_nothing(
    rehearsal: Rehearsal, batch: Batch, config: RunConfig
) -> None:
    model = model_of()
    updates = Updates(copy.deepcopy(model).to(rehearsal.device), config)
    rehearsal.forbid_waits(True)
    updates.make(batch, 2, scale=math.inf)
    rehearsal.forbid_waits(False)
    assert all(map(torch.equal, updates.weights(), (p.detach() for p in model.parameters())))


def test_no_weight_changes_where_the_fused_kernel_ignores_found_inf(
    heedless: Rehearsal, batch: Batch, config: RunConfig
) -> None:
    model = model_of()
    updates = Updates(copy.deepcopy(model).to(heedless.device), config)
    updates.make(batch, 2, scale=math.inf)
    assert all(map(torch.equal, updates.weights(), (p.detach() for p in model.parameters())))
    updates.make(batch, 1)
    assert not any(map(torch.equal, updates.weights(), (p.detach() for p in model.parameters())))


def test_the_validation_loss_is_the_cpus(rehearsal: Rehearsal, corpus: Corpus) -> None:
    model = model_of()
    assert corpus.valid is not None
    expected = validation_loss(model, corpus.valid)
    assert validation_loss(model.to(rehearsal.device), corpus.valid) == pytest.approx(expected, rel=1e-5)


def trained(
    rehearsal: Rehearsal, run: Path, corpus: Corpus, config: RunConfig, *, resume_at: int = 0, **training: Any
) -> Trainer:
    run.mkdir(exist_ok=True)
    trainer = Trainer(
        config.replace(training=training),
        corpus,
        RunDirectory(run),
        rehearsal.device,
        is_resumed=resume_at > 0,
    )
    if resume_at:
        trainer.resume(resume_at)
    trainer.train()
    return trainer


def weights_in(run: Path) -> bytes:
    return (run / "checkpoints" / "step-00000012" / "model.safetensors").read_bytes()


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(
    rehearsal: Rehearsal, tmp_path: Path, corpus: Corpus, config: RunConfig
) -> None:
    config = config.replace(model=WITH_DROPOUT)
    trained(rehearsal, tmp_path / "whole", corpus, config)
    trained(rehearsal, tmp_path / "parts", corpus, config, num_steps=8)
    torch.rand(3, device=rehearsal.device)  # another process would not have this generator
    trained(rehearsal, tmp_path / "parts", corpus, config, resume_at=8)
    assert weights_in(tmp_path / "parts") == weights_in(tmp_path / "whole")


PACKED: dict[str, Any] = {"packed_tokens": 256, "compiled": "on"}
"""Packed though no flash attention is there, and not compiled, as PyTorch cannot for this device."""


@pytest.mark.parametrize("packed", [{}, PACKED])
def test_a_run_waits_only_to_log_to_validate_and_to_save(
    rehearsal: Rehearsal,
    tmp_path: Path,
    corpus: Corpus,
    config: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    packed: dict[str, Any],
) -> None:
    """An update waits for nothing, and what follows it only where the log has its line."""
    monkeypatch.setattr(trainer_module, "_LOG_EVERY_SECONDS", math.inf)
    monkeypatch.setattr(trainer_module, "_LOG_EVERY_STEPS", 5)
    waits, update = [], Learner.update

    def without_waits(self: Learner, *given: Any) -> int:
        waits.append(rehearsal.num_waits)
        rehearsal.forbid_waits(True)
        stopped_by = update(self, *given)
        rehearsal.forbid_waits(False)
        return stopped_by

    monkeypatch.setattr(Learner, "update", without_waits)
    rare = {"checkpoint_every_steps": 1000, "validate_every_steps": 1000}
    trained(rehearsal, tmp_path / "run", corpus, config, num_steps=18, **rare, **packed)
    after = [now - before for before, now in itertools.pairwise(waits)]
    assert len(after) == 17
    assert [step for step, more in enumerate(after, start=1) if more] == [5, 10, 15]


def test_joined_micro_batches_make_the_cpus_updates(
    rehearsal: Rehearsal, tmp_path: Path, corpus: Corpus, config: RunConfig
) -> None:
    """Four micro-batches of an update are computed as one, in bfloat16 nearly so."""
    config = config.replace(model={"dropout": 0.0})
    losses = []
    for name, device, training in (
        ("here", torch.device("cpu"), {}),
        ("there", rehearsal.device, PACKED),
        ("low", rehearsal.device, {**PACKED, "precision": "bfloat16"}),
    ):
        (tmp_path / name).mkdir()
        run = RunDirectory(tmp_path / name)
        Trainer(config.replace(training=training), corpus, run, device).train()
        losses.append([event["loss"] for event in read_log(run.log) if event["event"] == "validate"][-1])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=0.03)


SHAPES: dict[str, tuple[dict[str, Any], int, int]] = {
    "as in base": ({"d_model": 64, "d_ff": 256, "num_layers": 3, "num_heads": 4}, 25, 40),
    "deep": ({"d_model": 32, "d_ff": 128, "num_layers": 6, "num_heads": 2}, 25, 40),
    "long sentences": ({"d_model": 32, "d_ff": 128, "num_layers": 2, "num_heads": 4}, 100, 8),
    "large vocabulary": ({"d_model": 64, "d_ff": 128, "num_layers": 1, "num_heads": 4}, 20, 20),
}
VOCABULARY_OF = {"large vocabulary": 8_000}


@pytest.mark.parametrize("name", SHAPES)
def test_the_peak_of_memory_is_predicted_within_a_fifth(
    rehearsal: Rehearsal, config: RunConfig, name: str
) -> None:
    sizes, length, rows = SHAPES[name]
    vocab_size = VOCABULARY_OF.get(name, 500)
    config = config.replace(
        model={**sizes, "dropout": 0.1, "source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    )
    ids = np.random.default_rng(1).integers(5, vocab_size, (rows, length))
    batch = Batch(ids, ids, ids, ids.size, np.arange(rows))
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    updates = Updates(build_model(config.model).to(rehearsal.device), config)
    updates.make(batch, 2)
    measured = torch.accelerator.max_memory_allocated() - before
    predicted = training_memory(config, ids.size, length, chunk_elements(rehearsal.device.type))
    assert predicted.peak_estimate == pytest.approx(measured, rel=0.2)


def test_the_log_holds_the_devices_name_and_memory(
    rehearsal: Rehearsal, tmp_path: Path, corpus: Corpus, config: RunConfig
) -> None:
    trained(rehearsal, tmp_path / "run", corpus, config)
    events = list(read_log(tmp_path / "run" / "log.jsonl"))
    [start] = [event for event in events if event["event"] == "start"]
    assert start["environment"]["device"] == rehearsal.device.type
    assert start["environment"]["device_name"] == "a pretended device"
    assert start["environment"] == environment(rehearsal.device)
    logged = [event["memory_bytes"] for event in events if event["event"] == "train"]
    assert 0 < logged[-1] <= memory_bytes(rehearsal.device)


def test_matrices_that_measure_the_limit_do_not_count_as_memory(rehearsal: Rehearsal) -> None:
    before = memory_bytes(rehearsal.device)
    matmul_peak(rehearsal.device, "float32", 512)
    assert memory_bytes(rehearsal.device) <= before
    assert memory_bytes(rehearsal.device) == torch.accelerator.memory_allocated()


def test_a_micro_batch_that_does_not_fit_the_devices_memory_is_cut(
    rehearsal: Rehearsal, tmp_path: Path, corpus: Corpus, config: RunConfig
) -> None:
    corpus, config = replace(corpus, valid=None), config.replace(model={"dropout": 0.0})
    settings: dict[str, Any] = {"micro_batch_tokens": 256, "num_steps": 2}
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    trained(rehearsal, tmp_path / "whole", corpus, config, **settings)
    gc.collect()
    needed = torch.accelerator.max_memory_allocated() - before
    rehearsal.limit_bytes(torch.accelerator.memory_allocated() + needed * 9 // 10)
    trained(rehearsal, tmp_path / "cut", corpus, config, **settings)
    [notice] = [e["text"] for e in read_log(tmp_path / "cut" / "log.jsonl") if e["event"] == "notice"]
    assert "out of memory at update 1" in notice
    losses = [
        event["loss"]
        for run in ("whole", "cut")
        for event in read_log(tmp_path / run / "log.jsonl")
        if event["event"] == "train"
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_joined_micro_batches_that_do_not_fit_the_devices_memory_are_joined_no_more(
    rehearsal: Rehearsal, tmp_path: Path, corpus: Corpus, config: RunConfig
) -> None:
    corpus, config = replace(corpus, valid=None), config.replace(model={"dropout": 0.0, "d_ff": 4096})
    losses, needed = [], 1 << 30
    for name, share in (("whole", 1.0), ("apart", 0.8)):
        gc.collect()
        before = torch.accelerator.memory_allocated()
        rehearsal.limit_bytes(before + int(share * needed))
        torch.accelerator.reset_peak_memory_stats()
        trained(rehearsal, tmp_path / name, corpus, config, num_steps=2, **PACKED)
        needed = torch.accelerator.max_memory_allocated() - before
        losses.append([e["loss"] for e in read_log(tmp_path / name / "log.jsonl") if e["event"] == "train"])
    notices = [e["text"] for e in read_log(tmp_path / "apart" / "log.jsonl") if e["event"] == "notice"]
    assert notices[1:] == [
        "out of memory at update 1: from now on at most 128 tokens a side are computed at once"
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_micro_batches_are_chosen_from_the_devices_memory_and_recorded(
    rehearsal: Rehearsal, tmp_path: Path, toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the batch, as on the CPU, or what fits; if attention can be packed, all of it at once."""
    prepared, cpu = PreparedData(toy_data), torch.device("cpu")

    def tokens(device: torch.device) -> tuple[int | None, int | None]:
        chosen = completed(base(), prepared, device).training
        return chosen.micro_batch_tokens, chosen.packed_tokens

    assert tokens(cpu) == (6_625, None)
    rehearsal.limit_bytes(80 << 30)
    assert tokens(rehearsal.device) == (6_625, None)
    monkeypatch.setattr(run_configuration, "takes_flash", lambda *given: True)
    assert tokens(cpu) == (6_625, None)
    assert tokens(rehearsal.device) == (6_625, 26_500)
    rehearsal.limit_bytes(10 << 30)
    assert tokens(rehearsal.device) == (6_625, 13_250)
    rehearsal.limit_bytes(2 << 30)
    assert tokens(rehearsal.device) == (1_656, 1_656)
    directory = RunDirectory(tmp_path)
    directory.config.write_bytes(completed(base(), prepared, rehearsal.device).to_toml().encode())
    for other in (cpu, rehearsal.device):
        rehearsal.limit_bytes(80 << 30)
        for given in (None, base()):
            kept = run_config(directory, given, prepared, other).training
            assert (kept.micro_batch_tokens, kept.packed_tokens) == (1_656, 1_656)
