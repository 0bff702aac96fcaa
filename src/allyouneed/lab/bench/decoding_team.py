"""Worker processes of a contender, which translate in turns and are timed from outside.

The time of a turn includes passing ids to the process and back: a few milliseconds for a thousand sentences.
"""

import importlib
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Self

import torch

from allyouneed.hardware.memory import memory_bytes
from allyouneed.lab.bench.contenders import NEEDED, Entry
from allyouneed.lab.bench.decoding_contenders import (
    CONTENDERS,
    ONE_BY_ONE,
    DecodingContender,
    Ids,
    Layout,
    sorted_batches,
)
from allyouneed.lab.bench.decoding_workloads import DecodingTask

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class DecodingTurn:
    """One translation of all sentences."""

    seconds: float
    outputs: Sequence[Sequence[int]]
    """Token ids without end symbols, in the order of the sources."""


class DecodingTeam:
    """The processes of an entry, each with the task's model loaded, as many as its largest layout needs."""

    def __init__(self, task: DecodingTask, entry: Entry, num_processes: int) -> None:
        self._layout = ONE_BY_ONE
        self._pools = [
            ProcessPoolExecutor(1, get_context("spawn"), _enter, (task, entry)) for _ in range(num_processes)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown()

    def arrange(self, layout: Layout) -> None:
        """Prepare all processes to translate in this layout."""
        self._layout = layout
        for ready in [pool.submit(_arrange, layout) for pool in self._pools]:
            ready.result()

    def take_turn(self, sources: Sequence[Ids]) -> DecodingTurn:
        """Translate all sources and time it; a process that becomes free takes the next batch."""
        began = time.perf_counter()
        if self._layout.processes == 1:
            outputs = self._pools[0].submit(_translate, sources).result()
            return DecodingTurn(time.perf_counter() - began, outputs)
        batches = iter(sorted_batches(sources, self._layout.batch))
        results: dict[int, list[int]] = {}

        def work(pool: ProcessPoolExecutor) -> None:
            for batch in batches:
                found = pool.submit(_translate, [sources[place] for place in batch]).result()
                results.update(zip(batch, found, strict=True))

        pools = self._pools[: self._layout.processes]
        with ThreadPoolExecutor(len(pools)) as threads:
            list(threads.map(work, pools))
        return DecodingTurn(time.perf_counter() - began, [results[place] for place in range(len(sources))])

    def latencies(self, sources: Sequence[Ids]) -> list[float]:
        """Seconds per source, translated one at a time and timed in the first process."""
        return self._pools[0].submit(_time_each, sources).result()

    def memory(self) -> tuple[int, int]:
        """Peak bytes of all processes together, and their growth since just before the model was loaded."""
        each = [pool.submit(_memory).result() for pool in self._pools]
        return sum(peak for peak, _ in each), sum(grown for _, grown in each)


_entered: list[tuple[DecodingContender, int]] = []
"""In a worker process: its contender, and the peak memory in bytes before the contender was built."""


def _enter(task: DecodingTask, entry: Entry) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent reports it
    if entry.contender in NEEDED:
        package = importlib.import_module(NEEDED[entry.contender][0])
        getattr(package, "MarianMTModel", None)  # whose code transformers loads when it is asked for
    before = memory_bytes(_CPU)
    build = CONTENDERS[entry.contender]
    _entered.append((build(task.folders[entry.contender], entry.precision, task.search), before))


def _arrange(layout: Layout) -> None:
    _entered[0][0].arrange(layout)


def _translate(sources: Sequence[Ids]) -> list[list[int]]:
    return _entered[0][0].translate(sources)


def _time_each(sources: Sequence[Ids]) -> list[float]:
    if not sources:  # of few sentences, some turns have none
        return []
    contender, _ = _entered[0]
    contender.translate(sources[:1])  # warm-up
    seconds = []
    for source in sources:
        began = time.perf_counter()
        contender.translate([source])
        seconds.append(time.perf_counter() - began)
    return seconds


def _memory() -> tuple[int, int]:
    peak = memory_bytes(_CPU)
    return peak, peak - _entered[0][1]
