"""Connections with deadlines: a client that is slow, or does nothing, is sent away."""

import asyncio
import socket
from collections import Counter
from typing import Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from allyouneed.interfaces.server.origins import is_loopback
from allyouneed.interfaces.server.settings import ServerSettings

Phase = Literal["headers", "body"]


class Connections:
    """Counts the open connections of a server.

    Args:
        settings: Limits. Connections from this machine, such as those of a proxy, are limited only in all.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._of_address: Counter[str] = Counter()

    def admit(self, address: str) -> bool:
        """Count a connection; return whether it may stay."""
        self._of_address[address] += 1
        if self._of_address.total() > self.settings.most_connections:
            return False
        return is_loopback(address) or self._of_address[address] <= self.settings.most_connections_per_address

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
        # Else the body of an answer waits for the client to acknowledge its headers, 40 ms on Linux.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._phase: Phase | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._address = self.client[0] if self.client else ""
        if self.limits.admit(self._address):
            self._watch()
        else:
            self._turn_away(b"503 Service Unavailable")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._set_phase(None)
        self.limits.forget(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
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
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._phase = phase
        if phase is not None:
            settings = self.limits.settings
            seconds = settings.header_seconds if phase == "headers" else settings.body_seconds
            self._deadline = self.loop.call_later(seconds, self._turn_away, b"408 Request Timeout")

    def _turn_away(self, status: bytes) -> None:
        """Close the connection, with an answer if none has begun."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
        self.transport.close()


def guarded(settings: ServerSettings) -> type[GuardedProtocol]:
    """The class of the connections of one server, as uvicorn takes it."""
    return type("Guarded", (GuardedProtocol,), {"limits": Connections(settings)})
