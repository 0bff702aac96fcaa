"""Runs the server in this process: its threads, socket, signals and end, models and tokens that change."""

import asyncio
import contextlib
import itertools
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from allyouneed.errors import UsageError, UserError, counted, duration, system_fault, talk
from allyouneed.hardware.accelerators import threads_when_loaded
from allyouneed.hardware.processor import available_cores
from allyouneed.inference.scheduler import Scheduler
from allyouneed.inference.search_plan import Batching
from allyouneed.serve.access import ServerSettings, read_token
from allyouneed.serve.application import create_app
from allyouneed.serve.connections import guarded
from allyouneed.serve.logs import Log, LogFormat
from allyouneed.serve.models import ServedModel, newer
from allyouneed.serve.request_options import MOST_BODY_BYTES
from allyouneed.serve.service import Service
from allyouneed.storage.publish.disk import url_of

_SECONDS_BETWEEN_LOOKS, _LOOKS_BETWEEN_REQUESTS = 2.0, 30
"""Models at URLs are looked at less often, as each look is a request to their place."""
_SIGNALS = signal.SIGINT, signal.SIGTERM
_LINGERING_SECONDS = 0.3
"""Time after the last answer in which requests that were on their way are told that the server stops."""
_CLOSING_SECONDS = 2
_BACKLOG = 1_024

_log = logging.getLogger("allyouneed.server")


@dataclass(frozen=True)
class DecodingThreads:
    """The threads that decode for a service."""

    number: int | None
    batch_tokens: int | None
    """Maximum source tokens per batch, times the beam size; None leaves it to the engines."""
    device: str


def _one_pytorch_thread() -> contextlib.AbstractContextManager[None]:
    """Limit PyTorch to one thread in each of the decoding threads, also if only a later model needs it."""
    if not sys.modules.get("torch"):
        threads_when_loaded.append(1)
        return contextlib.nullcontext()
    from allyouneed.hardware.devices import PYTORCH_THREADS

    return PYTORCH_THREADS.limited_to(1)


@contextlib.contextmanager
def serving(
    models: Sequence[ServedModel], threads: DecodingThreads, settings: ServerSettings
) -> Iterator[Service]:
    """A service with its decoding threads."""
    workers = threads.number or (available_cores() if threads.device == "cpu" else 1)
    batching = Batching(threads.batch_tokens, workers=workers)
    with _one_pytorch_thread(), Scheduler(batching).start(yielding=True) as scheduler:
        service = Service(models, settings, scheduler)
        with service.documents or contextlib.nullcontext():
            yield service


def run(
    models: Sequence[ServedModel], threads: DecodingThreads, settings: ServerSettings, log_format: LogFormat
) -> None:
    """Serve models until SIGTERM or SIGINT; what has been asked until then is answered.

    A second signal ends the process at once, with 128 and its number as the exit code.

    Raises:
        UsageError: The address is not available.
    """
    log = Log(log_format, is_quiet=talk.quiet)
    log.attach()
    began = time.monotonic()
    with serving(models, threads, settings) as service, _listening(settings) as listener:
        app = create_app(
            service,
            settings,
            observers=[log.exchange],
            lifespan=lambda _: _replacing(service, threads.device, log.tell),
        )
        server = _Server(configured(app, settings), service, log.tell)
        host, port = listener.getsockname()[:2]
        served = ", ".join(map(_named, models))
        log.tell(f"serving on http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C stops): {served}")
        server.run(sockets=[listener])
    answered = counted(log.num_exchanges, unit="requests")
    log.tell(f"stopped by {server.cause} after {duration(time.monotonic() - began)}: {answered} answered")


def _named(model: ServedModel) -> str:
    does = f"{model.source}-{model.target}" if model.source else model.task
    does += f" between {len(model.languages)} languages" if model.languages else ""
    return f"{does} from {model.path} ({model.precision})"


def configured(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """How uvicorn serves an application."""
    http, web_socket = guarded(settings)
    return uvicorn.Config(
        app,
        http=http,
        ws=web_socket,
        ws_max_size=MOST_BODY_BYTES,
        ws_ping_timeout=None,  # a connection whose messages wait is not read from, nor are its pongs
        timeout_keep_alive=math.ceil(settings.idle_seconds),
        timeout_graceful_shutdown=_CLOSING_SECONDS,
        backlog=_BACKLOG,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=[*settings.trusted_proxies],
        access_log=False,
        log_config=None,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._service, self._tell = service, tell
        self.cause = "an error"
        """Why it ends: the name of a signal."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end at once, without waiting for threads that are at work."""
        self.cause = signal.Signals(sig).name
        if self.should_exit:
            with contextlib.suppress(RuntimeError):  # it came while a line was being written
                self._tell(f"ended at once by {self.cause}, the second signal")
            os._exit(128 + sig)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals, and do not send them again at the end, as uvicorn does."""
        former = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the requests in progress while new ones are refused, then close all connections."""
        self._service.stopping.set()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._service.settings.drain_seconds
        while loop.time() < end and self._is_busy():
            await asyncio.sleep(0.02)
        await asyncio.sleep(_LINGERING_SECONDS)
        await super().shutdown(sockets)

    def _is_busy(self) -> bool:
        cycles = [getattr(connection, "cycle", None) for connection in self.server_state.connections]
        return not self._service.is_idle or any(cycle and not cycle.response_complete for cycle in cycles)


@contextlib.contextmanager
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    place = f"--host {settings.host} --port {settings.port}"
    try:
        [family, *_, address] = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (socket.gaierror, UnicodeError):
        raise UsageError(f"{place}: no such host; name an address of this machine") from None
    except OSError as error:
        raise UsageError(f"{place}: cannot listen ({system_fault(error)}); choose another --port") from None
    with listener:
        yield listener


@contextlib.asynccontextmanager
async def _replacing(service: Service, device: str, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """While the application runs, look for replaced models; on SIGHUP, at once and also at the token."""
    loop, hung_up, has_terminal = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.isatty()

    def hang_up() -> None:
        if has_terminal and not sys.stdin.isatty():  # it has been closed, and the server with it
            signal.raise_signal(signal.SIGTERM)
            return
        hung_up.set()
        if (token_file := service.settings.token_file) is not None:
            try:
                service.settings.token = read_token(token_file)
            except UserError as error:
                _log.warning("the token is not read again, the former one still counts: %s", error)
            else:
                tell("the token has been read again")

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    looking = asyncio.create_task(_look_for_newer(service, device, tell, hung_up))
    try:
        yield
    finally:
        looking.cancel()


async def _look_for_newer(
    service: Service, device: str, tell: Callable[[str], None], hung_up: asyncio.Event
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
                replacement = await asyncio.to_thread(newer, model, device, [*service.models.values()])
            except Exception as error:  # whatever it is, the former model serves, and the next look follows
                fault = str(error) if isinstance(error, UserError | OSError) else f"unexpected {error!r}"
                if fault != faults.get(model.name):
                    service.metrics.reloads.labels(model.name, "failed").inc()
                    _log.warning("%s: not loaded, the former model still serves: %s", model.name, fault)
                faults[model.name] = fault
                continue
            faults.pop(model.name, None)
            if replacement is not None:
                service.models[model.name] = replacement
                service.metrics.reloads.labels(model.name, "ok").inc()
                tell(f"{model.name}: replaced, loaded and verified")
