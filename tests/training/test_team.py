"""Threads that compute micro-batches side by side come to the bits of one, and stop and fail as one does."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.training.test_trainer import bits, events, resume
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from allyouneed.config.run import RunConfig
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.training.trainer import Corpus, Trainer

THREADS = 2, 3
VARIANTS: dict[str, dict[str, Any]] = {
    "transformer": {"symbol_dropout": 0.1, "attention_dropout": 0.1},
    "experts": {"feed_forward": "experts", "num_experts": 4},
    "recurrent": {"architecture": "recurrent", "num_layers": 2},
}

NewRun = Callable[..., Trainer]


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def new_run(tmp_path: Path, config: RunConfig, corpus: Corpus) -> NewRun:
    """A trainer of a run, of the given name, by so many threads."""

    def build(name: str, threads: int, model: dict[str, Any] | None = None, **training: object) -> Trainer:
        torch.set_num_threads(threads)
        run = tmp_path / name
        run.mkdir(exist_ok=True)
        given = config.replace(model=model or {}, training={"num_steps": 4} | training)
        return Trainer(given, corpus, RunDirectory(run), torch.device("cpu"))

    return build


@pytest.fixture
def before_each_module() -> Iterator[Callable[[Callable[[nn.Module], None]], None]]:
    """A function that lets another one be called before each module computes, in whatever thread."""
    handles = []

    def call(act: Callable[[nn.Module], None]) -> None:
        handles.append(register_module_forward_pre_hook(lambda module, arguments: act(module)))

    yield call
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_any_number_of_threads_trains_to_the_bits_of_one(
    new_run: NewRun, tmp_path: Path, variant: str, precision: str
) -> None:
    for threads in (1, *THREADS):
        new_run(str(threads), threads, VARIANTS[variant], precision=precision).train()
    assert len({bits(tmp_path / str(threads), 4) for threads in (1, *THREADS)}) == 1


def test_micro_batches_are_computed_at_the_same_time_on_a_thread_each(
    new_run: NewRun, before_each_module: Callable[[Callable[[nn.Module], None]], None]
) -> None:
    trainer = new_run("run", 2, num_steps=2)
    kind, met = type(trainer.model), threading.Barrier(2)
    numbers_of_threads = []

    def meet(module: nn.Module) -> None:
        if isinstance(module, kind) and module.training:
            met.wait(60)  # for the other one to compute, too
            numbers_of_threads.append(torch.get_num_threads())

    before_each_module(meet)
    trainer.train()
    assert numbers_of_threads == [1] * 8  # four micro-batches an update
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("threads", THREADS)
def test_a_run_that_is_told_to_stop_goes_on_to_the_same_bits(
    new_run: NewRun, tmp_path: Path, threads: int
) -> None:
    new_run("whole", threads).train()
    for number in range(6):
        trainer = resume(new_run("stopped", threads))
        answers = [0] * (4 * number + 3) + [int(signal.SIGTERM)] * 20
        with patch.object(trainer, "_reason_to_stop", side_effect=answers):
            trainer.train()
    resume(new_run("stopped", threads)).train()
    assert len(events(tmp_path / "stopped", "start")) == 7
    assert bits(tmp_path / "stopped", 4) == bits(tmp_path / "whole", 4)


def test_an_error_in_a_thread_ends_the_run_and_begins_no_more(
    new_run: NewRun, before_each_module: Callable[[Callable[[nn.Module], None]], None]
) -> None:
    trainer = new_run("run", 2)
    kind, computing = type(trainer.model), []

    def fail(module: nn.Module) -> None:
        if isinstance(module, kind):
            computing.append(module)
            if len(computing) == 3:
                raise ArithmeticError("the third micro-batch")

    before_each_module(fail)
    with pytest.raises(ArithmeticError, match="the third micro-batch"):
        trainer.train()
    assert len(computing) in (3, 4)  # the first, the second, and what was begun before the third failed


def test_micro_batches_that_memory_cannot_hold_are_cut(
    new_run: NewRun, tmp_path: Path, before_each_module: Callable[[Callable[[nn.Module], None]], None]
) -> None:
    trainer, lock, num_failed = new_run("run", 2), threading.Lock(), 0
    kind = type(trainer.model)

    def fail_twice(module: nn.Module) -> None:
        nonlocal num_failed
        with lock:
            if isinstance(module, kind) and num_failed < 2:
                num_failed += 1
                raise MemoryError

    before_each_module(fail_twice)
    trainer.train()
    (notice,) = events(tmp_path / "run", "notice")
    assert notice["text"].startswith("out of memory at update 1: from now on micro-batches of sentences of ")
    assert trainer.step == 4
