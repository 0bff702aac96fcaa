"""Frozen parameters keep their bits and cost no moments; the others are trained as if none were frozen."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tests.training.test_trainer import bits, computing, interrupt, resume
from torch import Tensor, nn

from allyouneed.config.presets import base, big
from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.errors import DivergedError, UsageError
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.training.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    build_optimizer,
    learning_rate,
    moments,
    require_some_trainable,
)
from allyouneed.training.trainer import Corpus, Trainer

FROZEN = ("embeddings.*", "encoder.0.feed_forward.*", "*.norm.weight")
CPU = torch.device("cpu")
Build = Callable[..., Trainer]


@pytest.fixture
def build(tmp_path: Path, config: RunConfig, corpus: Corpus) -> Build:
    """A trainer of a run of that name."""

    def build(name: str, **training: object) -> Trainer:
        run = tmp_path / name
        run.mkdir(exist_ok=True)
        changed = config.replace(training={"num_steps": 4} | training)
        return Trainer(changed, replace(corpus, valid=None), RunDirectory(run), CPU)

    return build


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def is_frozen(trainer: Trainer) -> dict[str, bool]:
    return {name: not parameter.requires_grad for name, parameter in trainer.model.named_parameters()}


def test_frozen_parameters_keep_their_bits_and_the_others_change(build: Build) -> None:
    trainer = build("run", frozen=FROZEN)
    before = weights(trainer)
    trainer.train()
    frozen = is_frozen(trainer)
    assert {name for name, is_so in frozen.items() if is_so} == {
        "embeddings.matrices.shared",
        *(f"encoder.0.feed_forward.{part}" for part in ("inner.weight", "inner.bias")),
        *(f"encoder.0.feed_forward.{part}" for part in ("outer.weight", "outer.bias")),
        *(name for name in frozen if name.endswith(".norm.weight")),
    }
    for name, tensor in weights(trainer).items():
        assert torch.equal(tensor, before[name]) == frozen[name], name


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_moments_per_weight_are_those_of_the_state(name: Any) -> None:
    config = TrainingConfig(optimizer=name)
    [state] = OPTIMIZERS[name]([nn.Parameter(torch.zeros(3))], config).state.values()
    assert sum(tensor.dim() > 0 for tensor in state.values()) == config.moments_per_weight


def test_there_are_moments_of_the_others_alone(build: Build) -> None:
    trainer = build("run", frozen=FROZEN)
    trainer.train()
    num_trained = list(is_frozen(trainer).values()).count(False)
    assert 0 < num_trained == len(trainer.optimizer.state) < len(is_frozen(trainer))
    state = RunDirectory(trainer.run.path).state(4) / "state.safetensors"
    assert len(load_checkpoint(RunDirectory(trainer.run.path).checkpoint(4)).weights) == len(
        is_frozen(trainer)
    )
    assert state.stat().st_size < 0.9 * _size_of_state(build)


def _size_of_state(build: Build) -> int:
    whole = build("whole")
    whole.train()
    return (RunDirectory(whole.run.path).state(4) / "state.safetensors").stat().st_size


def test_the_first_update_of_the_others_is_that_of_a_run_without_frozen_parameters(build: Build) -> None:
    whole, part = build("whole", num_steps=1), build("part", num_steps=1, frozen=FROZEN)
    whole.train()
    part.train()
    for name, is_so in is_frozen(part).items():
        assert torch.equal(whole.model.state_dict()[name], part.model.state_dict()[name]) != is_so, name


def test_a_pattern_that_is_given_twice_or_overlaps_changes_nothing(build: Build, tmp_path: Path) -> None:
    build("once", frozen=["encoder.*"]).train()
    build("twice", frozen=["encoder.0.*", "encoder.*", "encoder.*"]).train()
    assert bits(tmp_path / "once", 4) == bits(tmp_path / "twice", 4)


@pytest.mark.parametrize("micro_batch", [1, 6, 11])
def test_a_run_with_frozen_parameters_goes_on_to_the_same_bits(
    build: Build, tmp_path: Path, micro_batch: int
) -> None:
    build("whole", frozen=FROZEN).train()
    interrupt(build("run", frozen=FROZEN), micro_batch).train()
    resume(build("run", frozen=FROZEN)).train()
    assert bits(tmp_path / "run", 4) == bits(tmp_path / "whole", 4)


def test_any_number_of_threads_trains_the_others_to_the_same_bits(build: Build, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        build(str(threads), frozen=FROZEN).train()
    torch.set_num_threads(before)
    assert bits(tmp_path / "1", 4) == bits(tmp_path / "3", 4)


def test_where_updates_are_not_finite_the_module_is_still_named(build: Build) -> None:
    trainer = build("run", frozen=["embeddings.*"])
    for model in (*computing(trainer), trainer.model):  # the update is repeated with the latter
        model.get_submodule("decoder.0.feed_forward.inner").register_forward_hook(
            lambda module, arguments, output: output * math.nan
        )
    with pytest.raises(DivergedError, match=r"the output of decoder\.0\.feed_forward\.inner is not finite"):
        trainer.train()


def test_a_part_that_a_kernel_computes_with_others_is_named_alone(build: Build) -> None:
    trainer = build("run", frozen=["embeddings.*"])
    with torch.no_grad():
        trainer.model.get_parameter("encoder.0.after_self_attention.norm.weight").fill_(math.nan)
    expected = r"the output of encoder\.0\.after_self_attention\.norm is not finite"
    with pytest.raises(DivergedError, match=expected):
        trainer.train()


def test_the_update_that_is_repeated_drops_the_same_elements(build: Build) -> None:
    trainer, met = build("run"), set[bytes]()

    def bits_of(tensor: Tensor) -> bytes:
        return tensor.detach().float().numpy().tobytes()

    def overflow(module: nn.Module, arguments: tuple[Tensor], output: Tensor) -> Tensor:
        met.add(bits_of(arguments[0]))
        return output * math.inf

    def overflow_again(module: nn.Module, arguments: tuple[Tensor], output: Tensor) -> Tensor:
        return output * math.inf if bits_of(arguments[0]) in met else output

    name = "encoder.0.feed_forward.inner"  # its input depends on what was dropped before it
    for model in computing(trainer):
        model.get_submodule(name).register_forward_hook(overflow)
    trainer.model.get_submodule(name).register_forward_hook(overflow_again)
    with pytest.raises(DivergedError, match=rf"the output of {re.escape(name)} is not finite"):
        trainer.train()


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["encoder.0.*", "encoder.7.*"],
            "training.frozen: 'encoder.7.*' matches no parameter; names begin with "
            "embeddings.matrices, encoder.0, decoder.0",
        ),
        (["Encoder.*"], "training.frozen: 'Encoder.*' matches no parameter"),
        ([""], "training.frozen: '' matches no parameter"),
        (["*"], "training.frozen: matches all parameters; leave some to train"),
        (["e*", "d*"], "training.frozen: matches all parameters"),
    ],
)
def test_patterns_that_match_nothing_or_everything_are_refused(
    config: RunConfig, patterns: list[str], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        require_some_trainable(Transformer(config.model), patterns)
    assert error.value.messages[0].startswith(message)


def test_the_learning_rate_is_equation_3_by_hand() -> None:
    # d_model 16 and 4 steps of warm-up: 1/4 * min(step^-0.5, step / 8).
    config = RunConfig().replace(model={"d_model": 16}, training={"warmup_steps": 4})
    rates = [learning_rate(step, config) for step in (1, 2, 4, 16, 100)]
    assert rates == pytest.approx([1 / 32, 2 / 32, 1 / 8, 1 / 16, 1 / 40])
    tripled = config.replace(training={"learning_rate_factor": 3.0})
    assert learning_rate(16, tripled) == pytest.approx(3 / 16)


@pytest.mark.parametrize(("preset", "peak"), [(base(), 6.99e-4), (big(), 4.94e-4)], ids=["base", "big"])
def test_the_learning_rate_peaks_at_the_end_of_warm_up(preset: RunConfig, peak: float) -> None:
    rates = [learning_rate(step, preset) for step in range(1, 9_000)]
    assert rates.index(max(rates)) + 1 == 4_000
    assert max(rates) == pytest.approx(peak, rel=1e-3)


def test_a_step_of_adam_is_that_of_kingma_and_ba_with_the_papers_constants() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    module = nn.ParameterList([parameter])
    optimizer = build_optimizer(module, TrainingConfig())
    expected = parameter.detach().double()
    first_moment = second_moment = torch.zeros(3, dtype=torch.float64)
    for step, gradient in enumerate(torch.tensor([[0.5, 0.0, -1e-3], [-0.25, 0.0, 4.0]]), start=1):
        optimizer.param_groups[0]["lr"] = rate = 0.1 * step
        parameter.grad = gradient.clone()
        optimizer.step()
        first_moment = 0.9 * first_moment + 0.1 * gradient.double()
        second_moment = 0.98 * second_moment + 0.02 * gradient.double() ** 2
        corrected = first_moment / (1 - 0.9**step), second_moment / (1 - 0.98**step)
        expected = expected - rate * corrected[0] / (corrected[1].sqrt() + 1e-9)
    torch.testing.assert_close(parameter.detach().double(), expected, rtol=1e-5, atol=1e-6)
    assert parameter[1].item() == -2.0  # no gradient, no change: there is no weight decay


@pytest.mark.parametrize(("setting", "known"), [("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)])
def test_the_setting_names_what_there_is(setting: str, known: Mapping[str, object]) -> None:
    assert {*get_args(TrainingConfig.model_fields[setting].annotation)} == known.keys()


def momentum(parameters: Sequence[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum, whose buffers exist from the start."""
    optimizer = torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    for parameter in parameters:
        optimizer.state[parameter] = {"momentum_buffer": torch.zeros_like(parameter, requires_grad=False)}
    return optimizer


def test_another_optimizer_and_schedule_are_a_function_each(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIMIZERS, "adam", momentum)
    monkeypatch.setitem(SCHEDULES, "inverse_square_root", lambda step, d_model, config: 0.1 / step)
    whole = build("whole")
    before = weights(whole)
    whole.train()
    assert whole.optimizer.param_groups[0]["lr"] == 0.1 / 4
    assert len(moments(whole.optimizer)) == len(list(whole.model.parameters()))
    assert not any(torch.equal(tensor, before[name]) for name, tensor in weights(whole).items())
    interrupt(build("run"), 6).train()
    resume(build("run")).train()
    assert bits(tmp_path / "run", 4) == bits(tmp_path / "whole", 4)
