"""Benchmark of training speed: contenders take turns at the same batches, beside the machine's limit.

In every round, each contender takes a few steps on the same batches, and large matrix products are timed as
well. Ratios are taken within a round, so a busy machine slows all alike; the reported figures are medians.
Each contender runs in its own process, so that none reuses memory that another has freed.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.hardware.machine import matmul_peak, wait_for
from allyouneed.hardware.memory import memory_bytes
from allyouneed.lab.bench.contenders import (
    ContenderProcess,
    Entry,
    Precision,
    circumstances,
    play_in_turns,
    spread,
)
from allyouneed.lab.bench.training_contenders import CONTENDERS, TrainingContender
from allyouneed.lab.bench.training_workloads import Shape, make_batches
from allyouneed.training.flops import training_flops

_SEED = 1
_MEMORY_STEPS = 2
_NUM_TURNS_OF_OTHER_BATCHES = 2
_LIMIT_SIZE = 2048
"""Rows and columns of the matrices whose product is the limit, on a CPU."""


@dataclass(frozen=True)
class TrainingTurn:
    """A few steps of one contender."""

    seconds: float
    target_tokens: int
    """Without padding."""
    flops: int
    """FLOPs of the matrix products, computed from the batches: the same for all contenders."""

    @property
    def target_tokens_per_second(self) -> float:
        """Training speed."""
        return self.target_tokens / self.seconds

    @property
    def flops_per_second(self) -> float:
        """Arithmetic speed."""
        return self.flops / self.seconds


@dataclass(frozen=True)
class Round:
    """One turn of every entry on every workload."""

    limits: Mapping[Precision, float]
    """FLOPs per second of large matrix products alone, by precision."""
    turns: Mapping[tuple[str, Entry], TrainingTurn]
    """Turns by workload and entry."""


def bench_shape(
    shape: Shape,
    entries: Sequence[Entry],
    num_rounds: int,
    device: torch.device,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Measure all entries on a shape, after a warm-up round; return the record, ready to be saved as JSON.

    `advance` is called after every turn, `num_turns` times in all.
    """
    rows = summarise(rounds := list(play_rounds(shape, entries, num_rounds, device, advance)))
    if shape.studies_length:
        for row, entry in zip(rows[-len(entries) :], entries, strict=True):
            row["step_memory_bytes"] = step_memory(shape, entry, device)
            advance()
    return {
        **circumstances(device),
        "model": shape.model.model_dump(),
        "batch_tokens": shape.batch_tokens,
        "micro_batch_tokens": shape.micro_batch_tokens,
        "steps_per_turn": shape.steps,
        "rounds": num_rounds,
        "limit_flops_per_second": {
            precision: spread(each.limits[precision] for each in rounds) for precision in rounds[0].limits
        },
        "rows": rows,
    }


def num_turns(shape: Shape, entries: Sequence[Entry], num_rounds: int) -> int:
    """The number of turns of `bench_shape`."""
    return len(entries) * ((num_rounds + 1) * len(shape.workloads) + shape.studies_length)


def play_rounds(
    shape: Shape,
    entries: Sequence[Entry],
    num_rounds: int,
    device: torch.device,
    advance: Callable[[], None],
) -> Iterator[Round]:
    """Measure round after round, after a warm-up round that is not reported."""
    drawn = {workload: draw() for workload, draw in shape.workloads.items()}
    longest = 1 + max(int(lengths.max()) for lengths in drawn.values())
    # Training repeats the same batch shapes, and a shape is fast from the second time on.
    batches = {
        workload: list(islice(_batches(shape, lengths), _NUM_TURNS_OF_OTHER_BATCHES * shape.steps))
        for workload, lengths in drawn.items()
    }
    size = _LIMIT_SIZE if device.type == "cpu" else None
    with ExitStack() as stack:
        processes = {
            entry: stack.enter_context(ContenderProcess(build_contender, shape, entry, longest, device))
            for entry in entries
        }

        def take_part(key: tuple[str, Entry], number: int) -> TrainingTurn:
            workload, entry = key
            first = (number - 1) % _NUM_TURNS_OF_OTHER_BATCHES * shape.steps
            part = batches[workload][first : first + shape.steps] if number else batches[workload]
            turn = partial(take_turn, batches=part, model=shape.model, device=device)
            return processes[entry].ask(turn).result()

        for turns in play_in_turns([*product(batches, entries)], take_part, num_rounds, advance):
            limits: dict[Precision, float] = {
                precision: matmul_peak(device, precision, size)
                for _, precision in entries
                if precision != "int8"  # training does not support it
            }
            yield Round(limits, turns)


def _batches(shape: Shape, lengths: NDArray[np.int64]) -> Iterator[Batch]:
    return make_batches(lengths, shape.batch_tokens, shape.model.target_vocab_size)


def build_contender(shape: Shape, entry: Entry, longest: int, device: torch.device) -> TrainingContender:
    """The entry's model and optimizer, ready for sentences of up to `longest` tokens."""
    torch.manual_seed(_SEED)
    training = {
        "batch_tokens": shape.batch_tokens,
        "micro_batch_tokens": shape.micro_batch_tokens,
        "precision": entry.precision,
    }
    config = RunConfig(model=shape.model).replace(training=training)
    return CONTENDERS[entry.contender](config, longest, device)


def take_turn(
    contender: TrainingContender, batches: Sequence[Batch], model: ModelConfig, device: torch.device
) -> TrainingTurn:
    """Take one step on each batch and time them together."""
    wait_for(device)
    began = time.perf_counter()
    for batch in batches:
        contender.step(batch)
    wait_for(device)
    seconds = time.perf_counter() - began
    flops = sum(flops_of(batch, model) for batch in batches)
    return TrainingTurn(seconds, sum(batch.num_target_tokens for batch in batches), flops)


def flops_of(batch: Batch, model: ModelConfig) -> int:
    """FLOPs of the matrix products in a step on the batch."""
    rows, source_len = batch.source.shape
    return training_flops(model, rows, source_len, batch.target_output.shape[1], batch.num_target_tokens)


def step_memory(shape: Shape, entry: Entry, device: torch.device) -> int:
    """Peak growth in bytes of a new process that takes two steps on the shape's last workload."""
    # The current process would reuse memory that it has freed, which the peak does not show.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_growth, shape, entry, device).result()


def _load_code(shape: Shape, entry: Entry, device: torch.device) -> None:
    """Take a step of a tiny model: code that is loaded at the first step is not memory of a step."""
    widths = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_heads": 1, "d_k": 16, "d_v": 16}
    vocabulary = {"source_vocab_size": 64, "target_vocab_size": 64}
    tiny = replace(shape, model=shape.model.replace(**widths, **vocabulary), batch_tokens=64)
    few = np.full((8, 2), 7)
    build_contender(tiny, entry, 8, device).step(next(_batches(tiny, few)))


def summarise(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """A row per workload and entry, with ratios to all entries of the workload, and to the first workload."""
    workloads = list(dict.fromkeys(workload for workload, _ in rounds[0].turns))
    return [
        {
            "workload": workload,
            "contender": entry.contender,
            "precision": entry.precision,
            "target_tokens_per_second": spread(speeds(rounds, workload, entry)),
            "flops_per_second": spread(each.turns[workload, entry].flops_per_second for each in rounds),
            "share_of_limit": spread(
                each.turns[workload, entry].flops_per_second / each.limits[entry.precision] for each in rounds
            ),
            "times_as_fast_as": {
                " ".join(other): spread(speeds(rounds, workload, entry) / speeds(rounds, workload, other))
                for workload_of_other, other in rounds[0].turns
                if workload_of_other == workload
            },
            "kept_of_first_workload": spread(
                speeds(rounds, workload, entry) / speeds(rounds, workloads[0], entry)
            ),
        }
        for workload, entry in rounds[0].turns
    ]


def speeds(rounds: Sequence[Round], workload: str, entry: Entry) -> NDArray[np.float64]:
    """Target tokens per second, one figure per round."""
    return np.array([each.turns[workload, entry].target_tokens_per_second for each in rounds])


def _growth(shape: Shape, entry: Entry, device: torch.device) -> int:
    lengths = list(shape.workloads.values())[-1]()
    batches = _batches(shape, lengths)
    _load_code(shape, entry, device)
    before = memory_bytes(device)
    contender = build_contender(shape, entry, 1 + int(lengths.max()), device)
    for batch in islice(batches, _MEMORY_STEPS):
        contender.step(batch)
    wait_for(device)
    return memory_bytes(device) - before
