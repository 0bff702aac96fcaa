"""Deadlines and limits of connections, with raw sockets."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any

import httpx
import pytest
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.serve.conftest import StartServer
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_socket
from websockets.typing import Origin
from websockets.uri import parse_uri

from allyouneed.serve.access import ServerSettings
from allyouneed.serve.connections import Connections
from allyouneed.serve.request_options import Translated
from allyouneed.serve.service import Service

HEAD = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connect(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=PATIENCE_SECONDS)


def all_of(connection: socket.socket) -> bytes:
    """What arrives until the server closes the connection."""
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


def answer_to_drops(connection: socket.socket) -> bytes:
    """What a server answers that is sent a byte at a time."""
    received: list[bytes] = []

    def is_answered() -> bool:
        connection.sendall(b"a")
        with suppress(TimeoutError):
            received.append(connection.recv(100))
        return bool(received)

    wait_until(is_answered)
    return received[0]


def test_what_does_not_arrive_in_time_is_answered_by_408(start_server: StartServer) -> None:
    address = start_server(header_seconds=0.2, body_seconds=0.2)
    for sent in (
        b"",
        b"POST /api",
        HEAD,
        HEAD + b"Content-Length: 10\r\n\r\n",
        HEAD + b"Content-Length: 10\r\n\r\n{",
    ):
        with connect(address) as connection:
            connection.sendall(sent)
            assert all_of(connection).startswith(b"HTTP/1.1 408 Request Timeout\r\nConnection: close"), sent


def test_bytes_that_arrive_slowly_do_not_extend_the_deadline(start_server: StartServer) -> None:
    address = start_server(header_seconds=0.3, body_seconds=0.3)
    for head in (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
        HEAD + b"Content-Length: 100000\r\n\r\n",
    ):
        with connect(address) as connection:
            connection.settimeout(0.02)
            connection.sendall(head)
            assert answer_to_drops(connection).startswith(b"HTTP/1.1 408")


def test_the_second_request_of_a_connection_has_deadlines_too(start_server: StartServer) -> None:
    address = start_server(header_seconds=0.3)
    with connect(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while not received.endswith(b'{"status":"ok"}'):
            received += connection.recv(65_536)
        time.sleep(0.5)  # idle is not slow
        connection.sendall(b"GET /hea")
        assert all_of(connection).startswith(b"HTTP/1.1 408")


def test_the_body_of_a_request_that_was_refused_has_its_deadline_too(
    start_server: StartServer,
) -> None:
    address = start_server(body_seconds=0.2, idle_seconds=10 * PATIENCE_SECONDS)
    for refused in (b"Host: evil.example\r\n", b"Host: localhost\r\nOrigin: http://evil.example\r\n"):
        with connect(address) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\n" + refused + b"Transfer-Encoding: chunked\r\n\r\n")
            assert all_of(connection).startswith(b"HTTP/1.1 4")


def test_a_connection_goes_on_after_a_refusal_whose_body_comes_late(start_server: StartServer) -> None:
    address = start_server(body_seconds=1.0)
    with connect(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 421")
        connection.sendall(b"{}GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.5)
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = all_of(connection)
    assert b"HTTP/1.1 200" in received
    assert b"HTTP/1.1 404" in received


def test_an_idle_connection_is_closed(start_server: StartServer) -> None:
    address = start_server(idle_seconds=0.5)
    with connect(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert all_of(connection).endswith(b'{"status":"ok"}')


def test_a_translation_may_take_longer_than_any_deadline_of_connections(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after a later connection has met its deadlines, which are as long."""
    begun, may_end = threading.Event(), threading.Event()
    translate = Service.translate

    async def translate_when_it_may_end(*arguments: Any) -> list[Translated]:
        begun.set()
        await asyncio.to_thread(may_end.wait, PATIENCE_SECONDS)
        return await translate(*arguments)

    monkeypatch.setattr(Service, "translate", translate_when_it_may_end)
    address = start_server(header_seconds=0.5, body_seconds=0.5)
    asked = {"text": "moon star", "source": "en", "target": "de"}
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(
            httpx.post, f"{address}/api/translate", json=asked, timeout=2 * PATIENCE_SECONDS
        )
        try:
            assert begun.wait(PATIENCE_SECONDS)
            for late in (b"POST /api", HEAD + b"Content-Length: 10\r\n\r\n"):
                with connect(address) as connection:
                    connection.sendall(late)
                    assert all_of(connection).startswith(b"HTTP/1.1 408")
        finally:
            may_end.set()
        response = asking.result(PATIENCE_SECONDS)
    assert response.status_code == 200
    assert response.json()["results"][0]["translations"][0]["text"] == "noomo ratso"


def test_a_client_that_does_not_read_its_answers_is_sent_away(start_server: StartServer) -> None:
    address = start_server(body_seconds=0.3, most_connections=1)
    with connect(address) as connection:
        connection.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
        assert httpx.get(f"{address}/healthz").status_code == 503
        wait_until(lambda: httpx.get(f"{address}/healthz").status_code == 200)


def test_a_web_socket_that_does_not_read_is_sent_away_too(start_server: StartServer) -> None:
    address = start_server(body_seconds=0.3, most_connections=1)
    client = ClientProtocol(parse_uri(f"{address.replace('http', 'ws')}/translate"))
    with connect(address) as connection:
        client.send_request(client.connect())
        connection.sendall(b"".join(client.data_to_send()))
        client.receive_data(connection.recv(65_536))
        for _ in range(4):
            client.send_text(b"\n" * 900_000)  # the answers are as long
            connection.sendall(b"".join(client.data_to_send()))
        assert httpx.get(f"{address}/healthz").status_code == 503
        wait_until(lambda: httpx.get(f"{address}/healthz").status_code == 200)


def test_those_that_are_refused_keep_nobody_out() -> None:
    connections = Connections(ServerSettings())
    assert [connections.admit("10.0.0.1") for _ in range(1_000)].count(True) == 256
    assert connections.admit("10.0.0.2")


def test_more_connections_than_allowed_are_turned_away(start_server: StartServer) -> None:
    address = start_server(most_connections=3)
    with ExitStack() as stack:
        kept = [stack.enter_context(connect(address)) for _ in range(3)]
        for connection in kept:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        for asked in (b"GET /healthz HTTP/1.1\r\n", b""):
            with connect(address) as connection:
                connection.sendall(asked)
                assert all_of(connection).startswith(b"HTTP/1.1 503 Service Unavailable")
        kept[0].close()
        wait_until(lambda: httpx.get(f"{address}/healthz").status_code == 200)


def test_slow_connections_do_not_keep_others_waiting(start_server: StartServer) -> None:
    """Promise: Hostile requests."""
    address = start_server()
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(connect(address))) for _ in range(300)]
        for connection in slow:
            connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: lo")
        asked = {"text": "sun", "source": "en", "target": "de"}
        response = httpx.post(f"{address}/api/translate", json=asked, timeout=PATIENCE_SECONDS)
        assert response.status_code == 200


def test_an_address_has_fewer_connections_than_all_but_not_this_machine() -> None:
    connections = Connections(ServerSettings(most_connections=5, most_connections_per_address=2))
    assert [connections.admit("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert connections.admit("127.0.0.1")
    assert connections.admit("127.0.0.1")
    assert connections.admit("127.0.0.1")
    assert not connections.admit("127.0.0.1")
    for _ in range(3):
        connections.forget("127.0.0.1")
    connections.forget("10.0.0.1")
    assert connections.admit("10.0.0.1")


def test_a_trusted_proxy_has_as_many_connections_as_all() -> None:
    proxies = "10.0.0.1", "fd00::/8"
    limits = ServerSettings(most_connections=4, most_connections_per_address=1, trusted_proxies=proxies)
    for address in ("10.0.0.1", "fd00::5"):
        connections = Connections(limits)
        assert [connections.admit(address) for _ in range(5)] == [True] * 4 + [False]
    for address in ("10.0.0.2", "fe00::5", "", "no address"):
        connections = Connections(limits)
        assert [connections.admit(address) for _ in range(2)] == [True, False]


def test_web_sockets_count_until_they_are_closed(start_server: StartServer) -> None:
    address = start_server(most_connections=4)
    place = f"{address.replace('http', 'ws')}/translate"

    def status(path: str = place, origin: Origin | None = None) -> int:
        """The answer to a handshake; 101 if a socket was opened, which is closed at once."""
        try:
            with connect_socket(path, proxy=None, origin=origin):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    for _ in range(4):  # a server is told of closed connections in its own time
        wait_until(lambda: status() == 101)
        wait_until(lambda: status(origin=Origin("https://elsewhere.example")) == 403)
        wait_until(lambda: status(f"{place}/nowhere") in (403, 404))
    with ExitStack() as stack:
        opened: list[ClientConnection] = []

        def one_more() -> bool:
            with suppress(InvalidStatus):
                opened.append(stack.enter_context(connect_socket(place, proxy=None)))
            return len(opened) == 4

        wait_until(one_more)
        assert status() == 503
    wait_until(lambda: status() == 101)
