"""Benchmarks of decoding: translation speed beside other software, and the time per output token by length.

Contenders take turns at the same sentences, each in its best layout: it tries all on a sample, and the
best few on all sentences. Ratios are taken within a round, so a busy machine slows all alike.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from operator import methodcaller
from typing import Any, Self

import numpy as np
import torch

from allyouneed.hardware.memory import memory_bytes
from allyouneed.lab.bench.contenders import (
    NEEDED,
    OURS,
    ContenderProcess,
    Entry,
    Precision,
    circumstances,
    play_in_turns,
    spread,
)
from allyouneed.lab.bench.decoding_contenders import (
    CONTENDERS,
    ONE_BY_ONE,
    Ids,
    Layout,
    OurDecoder,
    other_batches,
    sorted_batches,
    ways_to_share,
)
from allyouneed.lab.bench.decoding_workloads import DecodingTask
from allyouneed.native.library import instructions, library
from allyouneed.symbols import UNKNOWN

FORCED = (
    *("ALLYOUNEED_ISA", "CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"),
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Environment variables that limit the contenders' instruction sets; CTranslate2 multiplies with oneDNN."""

_CPU = torch.device("cpu")
_TRIED_SENTENCES = 256
_FINALISTS = 2
_TURNS_OF_LAYOUT = 2
_LATENCY_SENTENCES, _LATENCY_TURNS = 80, 4


# Processes of a contender


@dataclass(frozen=True)
class DecodingTurn:
    """One translation of all sentences."""

    seconds: float
    """Includes passing ids to the process and back: a few milliseconds for a thousand sentences."""
    outputs: Sequence[Sequence[int]]
    """Token ids without end symbols, in the order of the sources."""


class DecodingTeam:
    """The processes of an entry, each with the task's model loaded, as many as its largest layout needs."""

    def __init__(self, task: DecodingTask, entry: Entry, num_processes: int) -> None:
        self._layout = ONE_BY_ONE
        self._processes = [ContenderProcess(_LoadedDecoder, task, entry) for _ in range(num_processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.shutdown()

    def arrange(self, layout: Layout) -> None:
        """Prepare all processes to translate in this layout."""
        self._layout = layout
        for ready in [process.ask(methodcaller("arrange", layout)) for process in self._processes]:
            ready.result()

    def take_turn(self, sources: Sequence[Ids]) -> DecodingTurn:
        """Translate all sources and time it; a process that becomes free takes the next batch."""
        began = time.perf_counter()
        if self._layout.processes == 1:
            outputs = self._processes[0].ask(methodcaller("translate", sources)).result()
            return DecodingTurn(time.perf_counter() - began, outputs)
        batches = iter(sorted_batches(sources, self._layout.batch))
        results: dict[int, list[int]] = {}

        def work(process: ContenderProcess) -> None:
            for batch in batches:
                texts = [sources[place] for place in batch]
                found = process.ask(methodcaller("translate", texts)).result()
                results.update(zip(batch, found, strict=True))

        processes = self._processes[: self._layout.processes]
        with ThreadPoolExecutor(len(processes)) as threads:
            list(threads.map(work, processes))
        return DecodingTurn(time.perf_counter() - began, [results[place] for place in range(len(sources))])

    def latencies(self, sources: Sequence[Ids]) -> list[float]:
        """Seconds per source, translated one at a time and timed in the first process."""
        return list(self._processes[0].ask(methodcaller("latencies", sources)).result())

    def memory(self) -> tuple[int, int]:
        """Peak bytes of all processes together, and their growth since just before the model was loaded."""
        each = [process.ask(methodcaller("memory")).result() for process in self._processes]
        return sum(peak for peak, _ in each), sum(grown for _, grown in each)


class _LoadedDecoder:
    """A contender in its process."""

    def __init__(self, task: DecodingTask, entry: Entry) -> None:
        if entry.contender in NEEDED:
            package = importlib.import_module(NEEDED[entry.contender][0])
            getattr(package, "MarianMTModel", None)  # whose code transformers loads when it is asked for
        self._before = memory_bytes(_CPU)
        build = CONTENDERS[entry.contender]
        contender = build(task.folders[entry.contender], entry.precision, task.search)
        self.arrange, self.translate = contender.arrange, contender.translate

    def latencies(self, sources: Sequence[Ids]) -> list[float]:
        if not sources:  # of few sentences, some turns have none
            return []
        self.translate(sources[:1])  # warm-up
        seconds = []
        for source in sources:
            began = time.perf_counter()
            self.translate([source])
            seconds.append(time.perf_counter() - began)
        return seconds

    def memory(self) -> tuple[int, int]:
        peak = memory_bytes(_CPU)
        return peak, peak - self._before


# The speed of translation


@dataclass(frozen=True)
class Measured:
    """The measurements of an entry."""

    layout: Layout
    tried: Sequence[tuple[Layout, float]]
    """Layouts that were tried, each with its sentences per second, the fastest first."""
    turns: Sequence[DecodingTurn]
    """One turn per round."""
    latencies: Sequence[float]
    """Seconds per sentence, translated one at a time by one thread."""
    peak_bytes: int
    grown_bytes: int
    """Growth of the processes' memory since just before the model was loaded."""


def bench_task(
    task: DecodingTask,
    entries: Sequence[Entry],
    num_rounds: int,
    threads: int,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Measure all entries on a task, after a warm-up round; return the record, ready to be saved as JSON.

    Each has so many threads, distributed as its best layout does. `advance` is called after every turn,
    `num_turns` times in all.
    """
    chosen = {entry: try_layouts(task, entry, threads, advance) for entry in entries}
    measured = dict(_measure(task, chosen, num_rounds, advance))
    return {
        **_circumstances(threads, entries),
        "model": task.model.model_dump(),
        "search": task.search.model_dump(),
        "sentences": len(task.sources),
        "source_tokens": sum(map(len, task.sources)),
        "rounds": num_rounds,
        "rows": summarise(task, measured),
    }


def num_turns(entries: Sequence[Entry], num_rounds: int, threads: int) -> int:
    """The number of turns of `bench_task`."""
    tried = 0
    for entry in entries:
        shared = ways_to_share(entry.contender, threads)
        tried += len(shared) + len(other_batches(entry.contender, shared[0])) + _FINALISTS
    return _TURNS_OF_LAYOUT * tried + len(entries) * (num_rounds + 1 + _LATENCY_TURNS)


def try_layouts(
    task: DecodingTask, entry: Entry, threads: int, advance: Callable[[], None]
) -> list[tuple[Layout, float]]:
    """Layouts with their sentences per second, the fastest first.

    A sample of the text decides between the ways to distribute the threads, then between batch sizes for the
    fastest way. The best few are measured again on the whole text. The best of several turns counts.
    """
    sample = evenly(task.sources, _TRIED_SENTENCES)
    shared = ways_to_share(entry.contender, threads)
    with DecodingTeam(task, entry, max(layout.processes for layout in shared)) as team:

        def speeds(layouts: Sequence[Layout], sources: Sequence[Ids]) -> list[tuple[Layout, float]]:
            def speed(layout: Layout) -> float:
                team.arrange(layout)
                seconds = team.take_turn(sources).seconds
                advance()
                return len(sources) / seconds

            return fastest_first(layouts, speed)

        team.take_turn(sample)  # warm-up: loads code and starts the threads
        tried = speeds(shared, sample)
        tried += speeds(other_batches(entry.contender, tried[0][0]), sample)
        tried.sort(key=_slowest_last)
        finalists = speeds([layout for layout, _ in tried[:_FINALISTS]], task.sources)
    return [*finalists, *tried[_FINALISTS:]]


def fastest_first(layouts: Sequence[Layout], speed: Callable[[Layout], float]) -> list[tuple[Layout, float]]:
    """Layouts and the best of their speeds in two turns, which they take one after the other."""
    turns = [(layout, speed(layout)) for layout in [*layouts] * _TURNS_OF_LAYOUT]
    best = {layout: max(speed for each, speed in turns if each == layout) for layout in layouts}
    return sorted(best.items(), key=_slowest_last)


def _slowest_last(tried: tuple[Layout, float]) -> float:
    return -tried[1]


def _measure(
    task: DecodingTask,
    chosen: Mapping[Entry, Sequence[tuple[Layout, float]]],
    num_rounds: int,
    advance: Callable[[], None],
) -> Iterator[tuple[Entry, Measured]]:
    with ExitStack() as stack:
        teams: dict[Entry, DecodingTeam] = {}
        for entry, tried in chosen.items():
            teams[entry] = stack.enter_context(DecodingTeam(task, entry, tried[0][0].processes))
            teams[entry].arrange(tried[0][0])
        played = play_in_turns(
            [*teams], lambda entry, number: teams[entry].take_turn(task.sources), num_rounds, advance
        )
        rounds = list(played)
        memory = {entry: team.memory() for entry, team in teams.items()}
        latencies = _latencies(teams, task, advance)
    for entry, tried in chosen.items():
        turns = [turns[entry] for turns in rounds]
        yield entry, Measured(tried[0][0], tried, turns, latencies[entry], *memory[entry])


def _latencies(
    teams: Mapping[Entry, DecodingTeam], task: DecodingTask, advance: Callable[[], None]
) -> dict[Entry, list[float]]:
    """Seconds per sentence of a sample, translated one at a time, a few sentences per turn."""
    sample = evenly(task.sources, _LATENCY_SENTENCES)
    found: dict[Entry, list[float]] = {entry: [] for entry in teams}
    for team in teams.values():
        team.arrange(ONE_BY_ONE)
    for number in range(_LATENCY_TURNS):
        for entry, team in teams.items():
            found[entry] += team.latencies(sample[number::_LATENCY_TURNS])
            advance()
    return found


def evenly(sources: Sequence[Ids], most: int) -> list[Ids]:
    """At most `most` sources, spread evenly over all lengths."""
    ordered = sorted(sources, key=len)
    places = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


def summarise(task: DecodingTask, measured: Mapping[Entry, Measured]) -> list[dict[str, Any]]:
    """A row per entry: speeds with their spread over the rounds, and ratios of sentences per second."""
    first = next(iter(measured.values())).turns[-1].outputs
    return [
        {
            "contender": entry.contender,
            "precision": entry.precision,
            "layout": asdict(found.layout),
            "sentences_per_second": spread(len(task.sources) / seconds(found)),
            "target_tokens_per_second": spread(
                task.num_tokens(turn.outputs) / turn.seconds for turn in found.turns
            ),
            "target_tokens": task.num_tokens(found.turns[-1].outputs),
            "times_as_fast_as": {
                " ".join(other): spread(seconds(of_other) / seconds(found))
                for other, of_other in measured.items()
            },
            "latency_seconds": {
                "median": float(np.median(found.latencies)),
                "p99": float(np.quantile(found.latencies, 0.99)),
            },
            "peak_memory_bytes": found.peak_bytes,
            "grown_memory_bytes": found.grown_bytes,
            "bleu": task.bleu(found.turns[-1].outputs),
            "same_as_first": float(
                np.mean([a == b for a, b in zip(found.turns[-1].outputs, first, strict=True)])
            ),
            "tried": [asdict(layout) | {"sentences_per_second": speed} for layout, speed in found.tried],
        }
        for entry, found in measured.items()
    ]


def seconds(found: Measured) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Seconds of each turn, one per round."""
    return np.array([turn.seconds for turn in found.turns])


def _circumstances(threads: int, entries: Sequence[Entry] = ()) -> dict[str, Any]:
    """The first fields of a record, with versions of the peers, and what the kernels compute with."""
    started = circumstances(_CPU)
    packages = {NEEDED[contender][0] for contender, _ in entries if contender in NEEDED}
    more: dict[str, Any] = {"threads": threads}
    more |= {package: metadata.version(package) for package in sorted(packages)}
    more |= {"instructions": instructions()} if library() else {}
    more |= {name: os.environ[name] for name in FORCED if name in os.environ}
    return started | {"environment": started["environment"] | more}


# The time per output token by length

LENGTHS = (32, 64, 128, 256)
"""Lengths of source and output in tokens, end symbols included."""
_BATCH = 8
_SEED = 1


def bench_lengths(
    task: DecodingTask,
    precisions: Sequence[Precision],
    num_rounds: int,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Measure all lengths in turns, in batches of 8 on one thread; `advance` is called after every turn.

    Each ratio compares the time per output token with that at the shortest length in the same round.
    """
    draw = np.random.default_rng(_SEED)
    sources = {
        length: draw.integers(UNKNOWN + 1, task.model.source_vocab_size, (_BATCH, length - 1)).tolist()
        for length in LENGTHS
    }
    rows = []
    for precision in precisions:
        decoders = {length: _decoder(task, precision, length) for length in LENGTHS}
        take_turn = partial(_seconds_of_token, decoders, sources)
        rounds = list(play_in_turns(LENGTHS, take_turn, num_rounds, advance))
        rows += [
            {
                "precision": precision,
                "length": length,
                "seconds_per_token": spread(each[length] for each in rounds),
                "times_the_shortest": spread(each[length] / each[LENGTHS[0]] for each in rounds),
            }
            for length in LENGTHS
        ]
    return {
        **_circumstances(1),
        "model": task.model.model_dump(),
        "beam_size": task.search.beam_size,
        "batch": _BATCH,
        "rounds": num_rounds,
        "rows": rows,
    }


def num_turns_of_lengths(precisions: Sequence[Precision], num_rounds: int) -> int:
    """The number of turns of `bench_lengths`."""
    return len(precisions) * len(LENGTHS) * (num_rounds + 1)


def _decoder(task: DecodingTask, precision: Precision, length: int) -> OurDecoder:
    search = task.search.replace(min_length=length, max_length=length)
    decoder = OurDecoder(task.folders[OURS], precision, search)
    decoder.arrange(Layout(processes=1, workers=1, threads=1, batch=_BATCH))
    return decoder


def _seconds_of_token(
    decoders: Mapping[int, OurDecoder], sources: Mapping[int, Sequence[Ids]], length: int, number: int
) -> float:
    began = time.perf_counter()
    decoders[length].translate(sources[length])
    return (time.perf_counter() - began) / (_BATCH * length)
