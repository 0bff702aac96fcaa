"""Runs the server in this process: its socket, its signals, and its end."""

import asyncio
import contextlib
import math
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from allyouneed.errors import UsageError, system_fault
from allyouneed.serve.connections import guarded
from allyouneed.serve.origins import is_loopback
from allyouneed.serve.server_settings import MOST_BODY_BYTES, ServerSettings

_SIGNALS = signal.SIGINT, signal.SIGTERM
_LINGERING_SECONDS = 0.3
"""Time after the last answer in which requests that were on their way are told that the server stops."""
_CLOSING_SECONDS = 2
_LONGEST_TOKEN = 1_024
_BACKLOG = 1_024


def serve(
    app: ASGIApp,
    settings: ServerSettings,
    *,
    stop: Callable[[], None] = lambda: None,
    is_idle: Callable[[], bool] = lambda: True,
    tell: Callable[[str], None] = print,
) -> str:
    """Serve until SIGTERM or SIGINT; what has been asked until then is answered.

    A second signal ends the process at once, with 128 and its number as the exit code.

    Args:
        app: The application.
        settings: Address and time limits.
        stop: Called at the first signal; new requests should be refused from then on.
        is_idle: Whether no work is left that belongs to no request, such as that of web sockets.
        tell: Takes the line with the address, when it can be connected to, and that of a second signal.

    Returns the name of the signal that has ended it. Raises `UsageError` if the address is not available.
    """
    with _listening(settings) as listener:
        server = _Server(configured(app, settings), settings, stop, is_idle, tell)
        host, port = listener.getsockname()[:2]
        tell(f"serving on http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C stops)")
        server.run(sockets=[listener])
        return server.cause


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
    """Answers what has been asked before it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        settings: ServerSettings,
        stop: Callable[[], None],
        is_idle: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(config)
        self._settings, self._stop, self._is_idle, self._tell = settings, stop, is_idle, tell
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
        self._stop()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.drain_seconds
        while loop.time() < end and self._is_busy():
            await asyncio.sleep(0.02)
        await asyncio.sleep(_LINGERING_SECONDS)
        await super().shutdown(sockets)

    def _is_busy(self) -> bool:
        cycles = [getattr(connection, "cycle", None) for connection in self.server_state.connections]
        return not self._is_idle() or any(cycle and not cycle.response_complete for cycle in cycles)


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


def require_safe_address(settings: ServerSettings, *, insecure: bool) -> None:
    """Refuse to listen beyond loopback without a token, unless `insecure`."""
    if settings.token is None and not insecure and not is_loopback(settings.host):
        raise UsageError(
            f"--host {settings.host}: other machines could connect without a token; "
            "add --token-file FILE, or --insecure if everyone may"
        )


def read_token(path: Path) -> str:
    """Read the token that clients must send from a file of one line.

    Raises:
        UsageError: The file is missing, is not for its owner only, or has not exactly one line.
    """
    place = f"--token-file {path}"
    try:
        status = path.stat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise UsageError(f"{place}: {system_fault(error)}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{place}: is no file")
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        raise UsageError(f"{place}: others can read it; run: chmod 600 {path}")
    token = content.removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.decode().isprintable():
        raise UsageError(f"{place}: is not one line of printable ASCII characters; write a long random token")
    return token.decode()
