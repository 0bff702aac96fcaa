"""The threads that decode for a service."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from allyouneed.config.run import DecodingPrecision
from allyouneed.hardware.processor import available_cores
from allyouneed.hardware.threads import PYTORCH_THREADS
from allyouneed.inference.batching import Batching
from allyouneed.inference.scheduler import Scheduler, Source
from allyouneed.inference.search_plan import SearchPlan
from allyouneed.interfaces.server.models import ServedModel
from allyouneed.interfaces.server.service import Service
from allyouneed.interfaces.server.settings import ServerSettings
from allyouneed.symbols import UNKNOWN

_MEASURED_TOKENS = 8
"""Length of a sentence by which the speed is measured at the start."""


@dataclass(frozen=True)
class Decoding:
    """How the models compute."""

    precision: DecodingPrecision | None
    """Precision of the matrix products; None: int8 where it is fast, else float32."""
    workers: int | None
    """Number of decoding threads; None: one per core."""
    batch_tokens: int
    """Maximum source tokens per batch, times the beam size."""
    device: torch.device


@contextlib.contextmanager
def serving(models: Sequence[ServedModel], decoding: Decoding, settings: ServerSettings) -> Iterator[Service]:
    """A service with its decoding threads."""
    workers = decoding.workers or (available_cores() if decoding.device.type == "cpu" else 1)
    batching = Batching(decoding.batch_tokens, workers=workers)
    with PYTORCH_THREADS.limited_to(1), Scheduler(batching).start(yielding=True) as scheduler:
        yield Service(models, settings, scheduler, _speed(models, scheduler, workers))


def _speed(models: Sequence[ServedModel], scheduler: Scheduler, workers: int) -> float:
    """Tokens per second, as the scheduler counts them, of the slowest model with a sentence per worker."""
    speeds = []
    for model in models:
        engine, search = model.loaded.engine, model.loaded.config.search
        length = min(_MEASURED_TOKENS, engine.max_positions or _MEASURED_TOKENS)
        settings = {"min_length": length, "max_length": length, "sampling": False, "mbr": None}
        plan = SearchPlan(engine, search.replace(**settings, alignments=False, coverage_penalty=0.0))
        ids = [UNKNOWN] * (length - 1)
        for source in (Source(ids[:1]), Source(ids)):  # the first time, memory is allocated
            began, before = time.perf_counter(), scheduler.num_tokens_done
            for future in scheduler.submit_all(plan, [source] * workers):
                future.result()
            speed = (scheduler.num_tokens_done - before) / (time.perf_counter() - began)
        speeds.append(speed)
    return min(speeds)
