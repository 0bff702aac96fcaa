"""Benchmarks of decoding: translation speed beside other software, and the time per output token by length.

Contenders take turns at the same sentences, each in its best layout: it tries all on a sample, and the
best few on all sentences. Ratios are taken within a round, so a busy machine slows all alike.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch

from allyouneed.lab.bench.contenders import NEEDED, OURS, Entry, Precision, circumstances, spread
from allyouneed.lab.bench.decoding_contenders import (
    ONE_BY_ONE,
    Ids,
    Layout,
    OurDecoder,
    other_batches,
    ways_to_share,
)
from allyouneed.lab.bench.decoding_team import DecodingTeam, DecodingTurn
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
    started = circumstances(_CPU)
    return {
        **started,
        "environment": started["environment"] | {"threads": threads} | _versions(entries) | kernels_in_use(),
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

        def play() -> dict[Entry, DecodingTurn]:
            turns = {}
            for entry, team in teams.items():
                turns[entry] = team.take_turn(task.sources)
                advance()
            return turns

        play()
        rounds = [play() for _ in range(num_rounds)]
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


def kernels_in_use() -> dict[str, str]:
    """The instruction set of our kernels, and what limits those of all."""
    chosen = {"instructions": instructions()} if library() else {}
    return chosen | {name: os.environ[name] for name in FORCED if name in os.environ}


def _versions(entries: Sequence[Entry]) -> dict[str, str]:
    packages = {NEEDED[contender][0] for contender, _ in entries if contender in NEEDED}
    return {package: metadata.version(package) for package in sorted(packages)}


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
        rounds: list[dict[int, float]] = []
        for _ in range(num_rounds + 1):  # the first is a warm-up
            rounds.append({})
            for length, decoder in decoders.items():
                rounds[-1][length] = _seconds_of_token(decoder, sources[length], length)
                advance()
        rows += [
            {
                "precision": precision,
                "length": length,
                "seconds_per_token": spread(each[length] for each in rounds[1:]),
                "times_the_shortest": spread(each[length] / each[LENGTHS[0]] for each in rounds[1:]),
            }
            for length in LENGTHS
        ]
    started = circumstances(torch.device("cpu"))
    return {
        **started,
        "environment": started["environment"] | {"threads": 1} | kernels_in_use(),
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


def _seconds_of_token(decoder: OurDecoder, sources: Sequence[Sequence[int]], length: int) -> float:
    began = time.perf_counter()
    decoder.translate(sources)
    return (time.perf_counter() - began) / (_BATCH * length)
