"""Shared parts of both benchmarks: entries, their processes, rounds of turns, the machine, and spreads."""

import importlib.util
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from allyouneed.config.run import DecodingPrecision
from allyouneed.hardware.machine import environment

OURS = "allyouneed"
K = TypeVar("K")
T = TypeVar("T")
Precision = DecodingPrecision

NEEDED = {
    "marian": ("transformers", "allyouneed[bench]"),
    "ctranslate2": ("ctranslate2", "allyouneed[ctranslate2]"),
    "huggingface": ("transformers", "allyouneed[huggingface]"),
}
"""Contender -> the package that it imports and the requirement that installs it."""

SETTINGS = (
    *("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
)
"""Environment variables that affect speed; the allocator's settings change the peers' speed by a half."""


class Entry(NamedTuple):
    """A contender and the precision of its matrix products."""

    contender: str
    precision: Precision


def missing_package(contender: str) -> str | None:
    """The requirement to install for a contender, or None if nothing is missing."""
    package, requirement = NEEDED.get(contender, ("torch", ""))
    return requirement if importlib.util.find_spec(package) is None else None


class ContenderProcess(ProcessPoolExecutor):
    """A process of a contender alone, so that it does not reuse memory that another has freed.

    Args:
        build: Builds the contender there.
        given: Arguments of `build`.
    """

    def __init__(self, build: Callable[..., object], *given: object) -> None:
        super().__init__(1, get_context("spawn"), _enter, (build, given))

    def ask(self, call: Callable[[Any], T]) -> Future[T]:
        """Call a function of the contender there."""
        return self.submit(_call, call)


_entered: list[Any] = []
"""In a process: its contender."""


def _enter(build: Callable[..., object], given: Sequence[object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent reports it
    _entered.append(build(*given))


def _call(call: Callable[[Any], T]) -> T:
    return call(_entered[0])


def play_in_turns(
    keys: Sequence[K], take_turn: Callable[[K, int], T], num_rounds: int, advance: Callable[[], None]
) -> Iterator[dict[K, T]]:
    """Yield a turn of every key for each round, after a warm-up round that is not reported.

    `take_turn` also gets the number of the round, 0 for the warm-up. `advance` is called after every turn.
    """
    for number in range(num_rounds + 1):
        turns = {}
        for key in keys:
            turns[key] = take_turn(key, number)
            advance()
        if number:
            yield turns


def circumstances(device: torch.device) -> dict[str, Any]:
    """The first fields of a benchmark record: date, machine and settings."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(device),
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and quartiles."""
    lower, median, upper = np.quantile(list(values), (0.25, 0.5, 0.75))
    return {"median": float(median), "lower_quartile": float(lower), "upper_quartile": float(upper)}
