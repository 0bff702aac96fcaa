"""Threads that compute micro-batches side by side come to the bits of one, and stop and fail as one does."""

import gc
import itertools
import signal
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.training.test_trainer import bits, events, resume
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.errors import ResourceError
from allyouneed.hardware.processor import features
from allyouneed.model.transformer import Transformer
from allyouneed.native.gradient_kernels import accumulate_
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.training import team as team_module
from allyouneed.training.team import team_of
from allyouneed.training.trainer import Corpus, Trainer
from allyouneed.training.update import Gradients, accumulate_gradient, batch_loss

THREADS = 2, 3
VARIANTS: dict[str, dict[str, Any]] = {
    "transformer": {"symbol_dropout": 0.1, "attention_dropout": 0.1},
    "experts": {"feed_forward": "experts", "num_experts": 4},
    "recurrent": {"architecture": "recurrent", "num_layers": 2},
    "convolutional": {"architecture": "convolutional", "num_layers": 2},
    "bytenet": {"architecture": "bytenet", "num_layers": 2},
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
@pytest.mark.parametrize(
    "variant", ["transformer", *(pytest.param(name, marks=pytest.mark.release) for name in [*VARIANTS][1:])]
)
def test_any_number_of_threads_trains_to_the_bits_of_one(
    new_run: NewRun, tmp_path: Path, variant: str, precision: str
) -> None:
    if (variant, precision) == ("recurrent", "bfloat16") and "avx512bw" not in features():
        pytest.skip("NOT RUN: PyTorch's LSTM in bfloat16 needs AVX-512")
    for threads in (1, *THREADS):
        new_run(str(threads), threads, VARIANTS[variant], precision=precision).train()
    assert len({bits(tmp_path / str(threads), 4) for threads in (1, *THREADS)}) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "model",
    [
        {"tied_embeddings": "all"},
        {"tied_embeddings": "target", "decoder_start": "zeros", "norm": "pre"},
        {"tied_embeddings": "none", "output_bias": True, "autoregression": "ssru"},
        {"feed_forward": "parameters", "parameter_heads": 2, "parameter_pairs": 12},
    ],
    ids=["tied", "pre-norm", "untied", "attention over parameters"],
)
def test_the_gradient_is_that_of_the_model_whose_weights_may_have_changed(
    new_run: NewRun, model: dict[str, Any], precision: str, threads: int
) -> None:
    """Rounded weights are as after every update; in bfloat16, only sums in float32 have another order."""
    trainer = new_run("run", threads, {"dropout": 0.0, **model}, precision=precision)
    team, gradients = trainer._learner._accumulation._team, trainer._learner._spread.gradients
    assert team is not None
    planned = next(trainer.schedule.batches_from(0))
    batches = [make_batch(trainer.corpus.train, pairs) for pairs in planned.micro_batches]
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    found = []
    for alone in (True, False):
        gradients.clear()
        for batch in batches if alone else ():
            gradients.loss += accumulate_gradient(
                *(trainer.model, batch, planned.num_target_tokens, 0.1, trainer.config.training.precision)
            )
        if not alone:
            team.add_up(enumerate(map(nullcontext, batches)), 1, planned.num_target_tokens)
        found.append(gradients.buffer.clone())
    assert found[0].norm() > 0
    torch.testing.assert_close(found[1], found[0], rtol=2e-5, atol=2e-6)


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
    trainer = new_run("run", 2, micro_batch_tokens=20)  # more micro-batches than are submitted at once
    kind, numbers = type(trainer.model), itertools.count(1)
    begun = []

    def fail(module: nn.Module) -> None:
        if isinstance(module, kind):
            begun.append(number := next(numbers))
            if number == 1:
                raise ArithmeticError("the first micro-batch")

    before_each_module(fail)
    num_micro_batches = len(next(trainer.schedule.batches_from(0)).micro_batches)
    with pytest.raises(ArithmeticError, match="the first micro-batch"):
        trainer.train()
    assert len(begun) < num_micro_batches


def test_micro_batches_that_memory_cannot_hold_together_are_computed_one_at_a_time_to_the_same_bits(
    new_run: NewRun, tmp_path: Path, before_each_module: Callable[[Callable[[nn.Module], None]], None]
) -> None:
    new_run("whole", 1).train()
    trainer, computing, both = new_run("run", 2), threading.Semaphore(1), threading.Barrier(2)
    kind, is_first = type(trainer.model), [True]

    def fail_together(module: nn.Module) -> None:
        if not isinstance(module, kind):
            return
        if is_first:
            both.wait(60)
            is_first.clear()
            raise MemoryError
        assert computing.acquire(blocking=False)  # nobody else computes

    before_each_module(fail_together)
    handle = register_module_forward_hook(
        lambda module, arguments, output: computing.release() if isinstance(module, kind) else None
    )
    trainer.train()
    handle.remove()
    (notice,) = events(tmp_path / "run", "notice")
    assert notice["text"] == (
        "out of memory at update 1: from now on one micro-batch is computed at a time, not one per thread"
    )
    assert bits(tmp_path / "run", 4) == bits(tmp_path / "whole", 4)


def test_micro_batches_that_memory_cannot_hold_alone_are_cut(new_run: NewRun, tmp_path: Path) -> None:
    trainer = new_run("run", 2)
    kind, longest = type(trainer.model), max(trainer.corpus.train.target_lengths) + 1

    def refuse(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Stands for memory that holds the longest sentences only a few at a time."""
        if isinstance(module, kind) and arguments[0].size(1) == longest and arguments[0].size(0) > 3:
            raise MemoryError

    handle = register_module_forward_pre_hook(refuse)
    trainer.train()
    handle.remove()
    texts = [event["text"] for event in events(tmp_path / "run", "notice")]
    assert "one micro-batch is computed at a time" in texts[0]
    assert all("micro-batches of sentences of" in text for text in texts[1:])
    assert len(texts) > 1
    assert trainer.step == 4


def test_where_a_thread_cannot_be_started_one_line_says_so(new_run: NewRun) -> None:
    start, numbers = threading.Thread.start, itertools.count(1)

    def fail_second(thread: threading.Thread) -> None:
        if next(numbers) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    with (
        patch.object(threading.Thread, "start", fail_second),
        pytest.raises(ResourceError, match=r"^cannot start 2 threads \(can't start new thread\); set OMP"),
    ):
        new_run("run", 2)


def test_memory_that_runs_out_while_gradients_are_added_leaves_nothing_behind(
    new_run: NewRun, tmp_path: Path
) -> None:
    """The long micro-batch is then computed in two parts, which without dropout differ by rounding."""
    model, training = {"dropout": 0.0}, {"num_steps": 1, "precision": "bfloat16"}
    whole, trainer = new_run("whole", 1, model, **training), new_run("run", 1, model, **training)
    whole.train()
    numbers = itertools.count(1)

    def fail_once(sums: Tensor, values: Tensor) -> None:
        if next(numbers) == 4:
            raise MemoryError
        accumulate_(sums, values)

    with patch.object(team_module, "accumulate_", fail_once):
        trainer.train()
    (notice,) = events(tmp_path / "run", "notice")
    assert "in 2 parts" in notice["text"]
    found, expected = (each._learner._spread.gradients.buffer for each in (trainer, whole))
    assert (found - expected).norm() < 0.02 * expected.norm()


def test_one_thread_starts_no_other(new_run: NewRun) -> None:
    before = {*threading.enumerate()}  # those of tests before this one may end meanwhile
    trainer = new_run("run", 1, num_steps=1)
    trainer.train()
    assert {*threading.enumerate()} <= before


def test_nothing_of_a_run_stays_in_memory(new_run: NewRun) -> None:
    """`reproduce` trains one after the other in a process."""
    trainer = new_run("run", 2, num_steps=1, precision="bfloat16")
    trainer.train()
    buffer = weakref.ref(trainer._learner._spread.gradients.buffer)
    weights = [weakref.ref(parameter) for parameter in trainer.model.parameters()]
    del trainer
    gc.collect()
    assert buffer() is None
    assert all(weight() is None for weight in weights)


def test_a_transformer_uses_each_linear_map_once(config: RunConfig, corpus: Corpus) -> None:
    """Gradients of several uses would be summed in bfloat16, as rounded matrices have theirs."""
    batch = make_batch(corpus.train, np.arange(3))
    for changes in ({}, {"autoregression": "ssru"}, {"feed_forward": "parameters", "parameter_pairs": 12}):
        model, used = Transformer(config.model.replace(**changes)), Counter[nn.Module]()
        maps = {module for module in model.modules() if isinstance(module, nn.Linear)}
        for module in maps:
            module.register_forward_hook(lambda module, arguments, output, used=used: used.update([module]))
        batch_loss(model, batch, 0.1, "float32")
        assert used == Counter(maps)


@pytest.mark.parametrize(("threads", "processes", "size", "each"), [(4, 1, 4, 1), (8, 1, 4, 2), (4, 4, 1, 4)])
def test_threads_are_divided_among_the_micro_batches_of_a_process(
    new_run: NewRun, config: RunConfig, threads: int, processes: int, size: int, each: int
) -> None:
    model = new_run("run", 1).model
    torch.set_num_threads(threads)
    gradients = Gradients(list(model.parameters()))
    team = team_of(model, gradients, config.training, 0.1, processes)
    assert team is not None
    assert (team.size, team.threads_each) == (size, each)
