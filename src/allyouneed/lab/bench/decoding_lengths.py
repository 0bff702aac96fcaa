"""Benchmark of the time per output token by length: our decoder, on sources and outputs of equal length."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from allyouneed.lab.bench.contenders import OURS, Precision, circumstances, spread
from allyouneed.lab.bench.decoding_contenders import Layout, OurDecoder
from allyouneed.lab.bench.decoding_speed import kernels_in_use
from allyouneed.lab.bench.decoding_workloads import Task
from allyouneed.symbols import UNKNOWN

LENGTHS = (32, 64, 128, 256)
"""Lengths of source and output in tokens, end symbols included."""
_BATCH = 8
_SEED = 1


def bench_lengths(
    task: Task, precisions: Sequence[Precision], num_rounds: int, advance: Callable[[], None] = lambda: None
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


def _decoder(task: Task, precision: Precision, length: int) -> OurDecoder:
    search = task.search.replace(min_length=length, max_length=length)
    decoder = OurDecoder(task.folders[OURS], precision, search)
    decoder.arrange(Layout(processes=1, workers=1, threads=1, batch=_BATCH))
    return decoder


def _seconds_of_token(decoder: OurDecoder, sources: Sequence[Sequence[int]], length: int) -> float:
    began = time.perf_counter()
    decoder.translate(sources)
    return (time.perf_counter() - began) / (_BATCH * length)
