"""Observes answered requests, for metrics and the log."""

import re
import secrets
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_GONE = 499
SWITCHING = 101
"""Status of a web socket."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, without anything that the user wrote."""

    method: str
    path: str
    """Path of the route; "other" if there is none."""
    status: int
    """Status of the answer; 499 if the client had gone before, 101 for a web socket, told at its end."""
    seconds: float
    num_bytes: int
    """Size of the answer's body."""
    id: str
    """The client's `X-Request-Id`, if it is short and plain, or a random one."""


Observer = Callable[[Exchange], None]


class Observed:
    """An application whose exchanges are told to observers.

    Args:
        app: The application.
        observers: Called after each HTTP request and each web socket.
        paths: Paths of requests that are told even if they were refused before they had a route.
    """

    def __init__(self, app: ASGIApp, observers: Sequence[Observer], paths: Container[str] = ()) -> None:
        self._app, self._observers, self._paths = app, observers, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and tell the observers."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began, status, num_bytes, is_told = time.monotonic(), _CLIENT_GONE, 0, False
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _SAFE_ID.fullmatch(given) else secrets.token_hex(8)

        def tell() -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                plain = scope["path"] if scope["path"] in self._paths else "other"
                path, seconds = str(getattr(scope.get("route"), "path", plain)), time.monotonic() - began
                method = scope.get("method", "GET")
                for observer in self._observers:
                    observer(Exchange(method, path, status, seconds, num_bytes, request_id))

        async def sending(message: Message) -> None:
            nonlocal status, num_bytes
            kind = message["type"].removeprefix("websocket.")  # which responses to a handshake have
            if message["type"] == "websocket.accept":
                status = SWITCHING
            elif kind == "http.response.start":
                status = message["status"]
                message = {
                    **message,
                    "headers": [*message["headers"], (b"x-request-id", request_id.encode())],
                }
            elif kind == "http.response.body":
                num_bytes += len(message.get("body", b""))
                if not message.get("more_body", False):
                    tell()  # before the client can ask again
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            tell()
