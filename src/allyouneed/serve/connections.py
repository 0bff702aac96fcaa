"""Connections with deadlines: a client that is slow, does not read, or does nothing, is sent away."""

import asyncio
import logging
import socket
from collections import Counter
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from allyouneed.serve.access import Proxies, ServerSettings
from allyouneed.serve.exchanges import SWITCHING

Phase = Literal["headers", "body"]

_REFUSAL_SECONDS = 2.0
"""How long a connection too many may take to begin its request, after which it is closed in any case."""
_MOST_REFUSED = 64
"""Number of connections too many above which they are closed at once."""

_TOO_MANY = b"503 Service Unavailable"


class Connections:
    """Counts the open connections of a server.

    Those from this machine and from trusted proxies count only towards the limit of all connections.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.num_refused = 0
        """Number of open connections that are not admitted, and soon closed."""
        self._of_address: Counter[str] = Counter()
        self._proxies = Proxies(settings.trusted_proxies)

    def admit(self, address: str) -> bool:
        """Whether one more connection may stay; it is counted if so."""
        if self._of_address.total() >= self.settings.most_connections:
            return False
        most = self.settings.most_connections_per_address
        if address not in self._proxies and self._of_address[address] >= most:
            return False
        self._of_address[address] += 1
        return True

    def forget(self, address: str) -> None:
        """Count a connection no more."""
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 whose headers and bodies have to arrive in time."""

    limits: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Watch a new connection, or close it if there are too many."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.logger = _OfClient(self.logger, {"client": self._address})  # type: ignore[assignment]
        # Else the body of an answer waits for the client to acknowledge its headers, 40 ms on Linux.
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The system ends a connection, also that of a web socket, whose client takes nothing for so long.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = round(1000 * self.limits.settings.body_seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._phase: Phase | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_refused = not self.limits.admit(self._address)
        if not self._is_refused:
            self._watch()
            return
        self.limits.num_refused += 1
        if self.limits.num_refused > _MOST_REFUSED:
            self._turn_away(_TOO_MANY)
        else:  # answered when it asks: an answer before that is no answer to clients of web sockets
            self._deadline = self.loop.call_later(_REFUSAL_SECONDS, self._turn_away, _TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_deadline()
        if self._is_refused:
            self.limits.num_refused -= 1
        else:
            self.limits.forget(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        if self._is_refused:
            self._turn_away(_TOO_MANY)
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the deadline of what has to arrive next; what is already awaited keeps its deadline."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing() or self.transport.get_protocol() not in (self, None):
            self._set_phase(None)  # closed, or a web socket
        elif not is_answered:
            self._set_phase("body" if self.cycle.more_body else None)
        elif self.conn.their_state is h11.SEND_BODY:
            self._set_phase("body")  # refused already, but not all of it has come
        elif self.cycle is None or self.conn.trailing_data[0]:
            self._set_phase("headers")
        else:
            self._set_phase(None)  # idle between requests, which uvicorn limits

    def _set_phase(self, phase: Phase | None) -> None:
        if phase == self._phase:
            return
        self._stop_deadline()
        self._phase = phase
        if phase is not None:
            settings = self.limits.settings
            seconds = settings.header_seconds if phase == "headers" else settings.body_seconds
            self._deadline = self.loop.call_later(seconds, self._turn_away, b"408 Request Timeout")

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _turn_away(self, status: bytes) -> None:
        """Close the connection, with an answer if none has begun."""
        if self.transport.is_closing():
            return
        self.logger.warning("%s: the connection is closed", status.decode())
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
        self.transport.close()


class CountedSocket(WebSocketsSansIOProtocol):
    """A web socket, which takes over a connection that is counted."""

    limits: Connections

    def handle_connect(self, event: Request) -> None:
        """Begin; a handshake that is none is answered before the application could tell of it."""
        super().handle_connect(event)
        if self.response.status_code != SWITCHING:
            about = {"client": self.client[0] if self.client else ""}
            self.logger.warning("Invalid handshake of a web socket received.", extra=about)

    async def send(self, message: Any) -> None:
        """Send a message; a refusal completes the handshake, too, which uvicorn may take for an error."""
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.limits.forget(self.client[0] if self.client else "")
        super().connection_lost(exc)


class _OfClient(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records have the address of a client, as `client`."""

    @property
    def level(self) -> int:
        """The level of the logger, for which uvicorn asks."""
        return self.logger.level


def guarded(settings: ServerSettings) -> tuple[type[GuardedProtocol], type[CountedSocket]]:
    """The classes of the connections of one server, and of its web sockets, as uvicorn takes them."""
    limits = {"limits": Connections(settings)}
    return type("Guarded", (GuardedProtocol,), limits), type("Counted", (CountedSocket,), limits)
