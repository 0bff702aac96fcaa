"""The threads that decode for a service."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from allyouneed.config.run import DecodingPrecision
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.hardware.processor import available_cores
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.serve.models import ServedModel
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service


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
        yield Service(models, settings, scheduler)
