"""The pace of training on this machine, timed with a throw-away model."""

import time
from collections.abc import Callable, Iterator

import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.store import PairStore
from allyouneed.errors import counted, duration
from allyouneed.hardware.machine import wait_for
from allyouneed.training.accumulation import Say
from allyouneed.training.distributed import Processes
from allyouneed.training.learner import Learner
from allyouneed.training.trainer import Schedule

_WARM_UP_SECONDS = 5.0
_WARM_UP_UPDATES = 5
_MOST_WARM_UP_SECONDS = 60.0
_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60}
_LONG_SECONDS = 1e10
Update = Callable[[PlannedBatch], None]


def updates_of(config: RunConfig, store: PairStore, device: torch.device, say: Say) -> Update:
    """A function that trains a new model with one batch, and returns when the device has done so."""
    learner = Learner(config, store, device, Processes(), say)

    def update(batch: PlannedBatch) -> None:
        learner.update(batch, 1, lambda: 0)
        wait_for(device)

    return update


def timed_updates(
    update: Callable[[PlannedBatch], None], schedule: Schedule, least_seconds: float | None = None
) -> tuple[list[PlannedBatch], float]:
    """Compute the first updates of a run twice; return them, and the seconds of the second time.

    The first time, which takes `least_seconds`, by default five, new shapes are slower.
    """
    least = _WARM_UP_SECONDS if least_seconds is None else least_seconds
    batches = list(_for_some_seconds(update, schedule, least))
    began = time.monotonic()
    for batch in batches:
        update(batch)
    return batches, time.monotonic() - began


def _for_some_seconds(
    update: Callable[[PlannedBatch], None], schedule: Schedule, least_seconds: float
) -> Iterator[PlannedBatch]:
    """Compute the first updates of the run for some seconds, several unless they are slow; yield each."""
    began = time.monotonic()
    for number, batch in enumerate(schedule.batches_from(0), start=1):
        update(batch)
        yield batch
        seconds = time.monotonic() - began
        if seconds > (least_seconds if number >= _WARM_UP_UPDATES else _MOST_WARM_UP_SECONDS):
            return


def about(seconds: float) -> str:
    """An estimated time in two digits, such as `about 6.5 hours`."""
    if seconds >= _LONG_SECONDS:
        return duration(seconds)
    unit, size = next((pair for pair in _UNITS.items() if seconds >= 1.5 * pair[1]), ("seconds", 1))
    return f"about {counted(float(f'{seconds / size:.2g}'), unit=unit)}"
