"""Runs the server: decodes in threads of this process, and replaces models and the token that change."""

import asyncio
import contextlib
import itertools
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from allyouneed.errors import UserError, counted, duration, talk
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.hardware.processor import available_cores
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.serve.application import create_app
from allyouneed.serve.logs import Log, LogFormat
from allyouneed.serve.models import ServedModel, newer
from allyouneed.serve.process import read_token, serve
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service
from allyouneed.storage.publish.disk import url_of

_SECONDS_BETWEEN_LOOKS, _LOOKS_BETWEEN_REQUESTS = 2.0, 30
"""Models at URLs are looked at less often, as each look is a request to their place."""

_log = logging.getLogger("allyouneed.server")


@dataclass(frozen=True)
class DecodingThreads:
    """The threads that decode for a service."""

    number: int | None
    """Number of threads; None: one per core."""
    batch_tokens: int
    """Maximum source tokens per batch, times the beam size."""
    device: torch.device


@contextlib.contextmanager
def serving(
    models: Sequence[ServedModel], threads: DecodingThreads, settings: ServerSettings
) -> Iterator[Service]:
    """A service with its decoding threads."""
    workers = threads.number or (available_cores() if threads.device.type == "cpu" else 1)
    batching = Batching(threads.batch_tokens, workers=workers)
    with PYTORCH_THREADS.limited_to(1), Scheduler(batching).start(yielding=True) as scheduler:
        yield Service(models, settings, scheduler)


def run(
    models: Sequence[ServedModel], threads: DecodingThreads, settings: ServerSettings, log_format: LogFormat
) -> None:
    """Serve models until the process is told to stop."""
    log = Log(log_format, is_quiet=talk.quiet)
    log.attach()
    began = time.monotonic()
    with serving(models, threads, settings) as service:
        app = create_app(
            service,
            settings,
            observers=[log.exchange],
            lifespan=lambda _: _replacing(service, threads.device, log.tell),
        )
        cause = serve(app, settings, stop=service.stop, is_idle=lambda: service.is_idle, tell=log.tell)
    answered = counted(log.num_exchanges, unit="requests")
    log.tell(f"stopped by {cause} after {duration(time.monotonic() - began)}: {answered} answered")


@contextlib.asynccontextmanager
async def _replacing(
    service: Service, device: torch.device, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """While the application runs, look for replaced models; on SIGHUP, at once and also at the token."""
    loop, hung_up, has_terminal = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.isatty()

    def hang_up() -> None:
        if has_terminal and not sys.stdin.isatty():  # it has been closed, and the server with it
            signal.raise_signal(signal.SIGTERM)
            return
        hung_up.set()
        _renew_token(service.settings, tell)

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    looking = asyncio.create_task(_look_for_newer(service, device, tell, hung_up))
    try:
        yield
    finally:
        looking.cancel()


def _renew_token(settings: ServerSettings, tell: Callable[[str], None]) -> None:
    """Read the token again, if it is from a file."""
    if settings.token_file is not None:
        try:
            settings.token = read_token(settings.token_file)
        except UserError as error:
            _log.warning("the token is not read again, the former one still counts: %s", error)
        else:
            tell("the token has been read again")


async def _look_for_newer(
    service: Service, device: torch.device, tell: Callable[[str], None], hung_up: asyncio.Event
) -> None:
    faults: dict[str, str] = {}
    for look in itertools.count(1):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hung_up.wait(), _SECONDS_BETWEEN_LOOKS)
        is_asked = hung_up.is_set()
        hung_up.clear()
        for model in list(service.models.values()):
            if url_of(model.path) and look % _LOOKS_BETWEEN_REQUESTS and not is_asked:
                continue
            try:
                replacement = await asyncio.to_thread(newer, model, device)
            except Exception as error:  # whatever it is, the former model serves, and the next look follows
                fault = str(error) if isinstance(error, UserError | OSError) else f"unexpected {error!r}"
                if fault != faults.get(model.name):
                    service.metrics.reloads.labels(model.name, "failed").inc()
                    _log.warning("%s: not loaded, the former model still serves: %s", model.name, fault)
                faults[model.name] = fault
                continue
            faults.pop(model.name, None)
            if replacement is not None:
                service.replace(replacement)
                service.metrics.reloads.labels(model.name, "ok").inc()
                tell(f"{model.name}: replaced, loaded and verified")
