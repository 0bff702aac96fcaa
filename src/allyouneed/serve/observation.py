"""Observes answered requests, for metrics and the log."""

import re
import secrets
import time
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allyouneed.serve.exchanges import CURRENT, SWITCHING, Exchange

_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_CHARACTERS = 100
"""Length to which a method, an address and a host are cut, as clients may choose them."""

Observer = Callable[[Exchange], None]


class Observed:
    """An application whose exchanges are told to observers.

    Args:
        app: The application.
        observers: Called after each HTTP request and each web socket.
        routes: Routes of the application, each with the name of its protocol.
    """

    def __init__(
        self, app: ASGIApp, observers: Sequence[Observer], routes: Sequence[tuple[BaseRoute, str]] = ()
    ) -> None:
        self._app, self._observers = app, observers
        places = [
            (each, each.path, name) for each, name in routes if isinstance(each, Route | WebSocketRoute)
        ]
        self._fixed = {
            ("http" if isinstance(each, Route) else "websocket", path): (path, name)
            for each, path, name in places
            if "{" not in path
        }
        self._open = [(each, (path, name)) for each, path, name in places if "{" in path]

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
        path, protocol = self._place(scope)
        return Exchange(
            (scope.get("client") or ("",))[0][:_MOST_CHARACTERS],
            scope.get("method", "GET")[:_MOST_CHARACTERS],
            path,
            headers.get("host", "")[:_MOST_CHARACTERS],
            protocol,
            given if _SAFE_ID.fullmatch(given) else secrets.token_hex(8),
        )

    def _place(self, scope: Scope) -> tuple[str, str]:
        """Path and protocol of the route that a request has, or would have if it were not refused before."""
        if fixed := self._fixed.get((scope["type"], scope["path"])):
            return fixed
        fitting = (place for route, place in self._open if route.matches(scope)[0] is not Match.NONE)
        return next(fitting, ("other", ""))
