"""Requests and their answers as the log and the metrics show them, which never contain texts of users."""

import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_CHARACTERS = 100
"""Length to which a method, an address and a host are cut, as clients may choose them."""
SWITCHING = 101
"""Status of a web socket."""
GONE = 499
"""Status of a request whose client has gone before its answer began."""

_FORBIDDEN = 403
"""Status with which the server refuses the handshake of a web socket that is closed at once."""


@dataclass
class Exchange:
    """A request and its answer; completed while it is answered."""

    client: str = ""
    method: str = ""
    path: str = ""
    """Path of the route; "other" if there is none."""
    host: str = ""
    """The Host header, or its beginning, as the client wrote it."""
    protocol: str = ""
    """Name of the protocol; empty for the page and the paths of operators."""
    id: str = ""
    """The client's `X-Request-Id`, if it is short and plain, or a random one."""
    status: int = GONE
    """Status of the answer; 101 for a web socket, told at its end."""
    error: str = ""
    """Label of the reason, if the request was refused or has failed."""
    directions: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    """Names of the models; those that translate one after the other are joined by "+"."""
    num_admitted: int = 0
    num_pending: int = 0
    """Number of characters of the last texts, while they are not admitted."""
    num_bytes: int = 0
    seconds: float = 0.0

    def note(self, source: str, target: str, models: Sequence[str]) -> None:
        """Note a direction, or a parser, which has no languages."""
        self.directions |= {f"{source}-{target}": None} if source else {}
        self.models |= {"+".join(models): None} if models else {}
        if not models:  # the text stays as it is: there is nothing to admit
            self.admit()

    def admit(self) -> None:
        """Count the pending characters as admitted."""
        self.num_admitted += self.num_pending
        self.num_pending = 0


CURRENT: ContextVar[Exchange] = ContextVar("exchange")


def current() -> Exchange:
    """The request that is being answered; one that nobody sees, if there is none."""
    return CURRENT.get(None) or Exchange()


Observer = Callable[[Exchange], None]


class Observed:
    """An application that tells its observers of each HTTP request and web socket.

    Its routes are given with the names of their protocols.
    """

    def __init__(
        self, app: ASGIApp, observers: Sequence[Observer], routes: Sequence[tuple[BaseRoute, str]] = ()
    ) -> None:
        self._app, self._observers = app, observers
        self._fixed: dict[tuple[str, str], tuple[str, str]] = {}
        self._open: list[tuple[BaseRoute, tuple[str, str]]] = []
        for each, name in routes:
            if isinstance(each, Route | WebSocketRoute) and "{" in each.path:
                self._open.append((each, (each.path, name)))
            elif isinstance(each, Route | WebSocketRoute):
                kind = "http" if isinstance(each, Route) else "websocket"
                self._fixed[kind, each.path] = each.path, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and tell the observers."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began, is_told, exchange = time.monotonic(), False, self._begun(scope)

        def tell() -> None:
            nonlocal is_told
            is_told, exchange.seconds = True, time.monotonic() - began
            for observer in self._observers:
                observer(exchange)

        async def sending(message: Message) -> None:
            kind = message["type"].removeprefix("websocket.")  # which responses to a handshake have
            if message["type"] == "websocket.accept":
                exchange.status = SWITCHING
            elif message["type"] == "websocket.close" and exchange.status == GONE:  # a refused handshake
                exchange.status, exchange.error = _FORBIDDEN, exchange.error or "not_found"
            elif kind == "http.response.start":
                exchange.status = message["status"]
                identity = b"x-request-id", exchange.id.encode()
                message = {**message, "headers": [*message["headers"], identity]}
            elif kind == "http.response.body":
                exchange.num_bytes += len(message.get("body", b""))
                if not message.get("more_body", False) and not is_told:
                    tell()  # before the client can ask again
            await send(message)

        token = CURRENT.set(exchange)
        try:
            await self._app(scope, receive, sending)
        finally:
            CURRENT.reset(token)
            if not is_told:
                exchange.error = exchange.error or ("client_gone" if exchange.status != SWITCHING else "")
                tell()

    def _begun(self, scope: Scope) -> Exchange:
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        # the route that the request has, or would have if it were not refused before
        fitting = (place for route, place in self._open if route.matches(scope)[0] is not Match.NONE)
        fixed = self._fixed.get((scope["type"], scope["path"]))
        path, protocol = fixed or next(fitting, ("other", ""))
        return Exchange(
            (scope.get("client") or ("",))[0][:_MOST_CHARACTERS],
            scope.get("method", "GET")[:_MOST_CHARACTERS],
            path,
            headers.get("host", "")[:_MOST_CHARACTERS],
            protocol,
            given if _SAFE_ID.fullmatch(given) else secrets.token_hex(8),
        )
