"""Marian's web socket, with a client over real connections."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from socket import SHUT_RDWR
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.serve.conftest import DECODING, SETTINGS, StartServer, running
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from allyouneed.serve.awaiting import Admission
from allyouneed.serve.models import ServedModel
from allyouneed.serve.process import serving
from allyouneed.serve.protocols import marian
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.service import Service

Offline = Callable[[str], str]
Connect = Callable[..., ClientConnection]


@pytest.fixture
def offline(models: list[ServedModel]) -> Offline:
    """Translates a sentence without a server."""
    translator: Any = models[0].loaded
    return lambda text: str(translator.translate([text])[0].text)


@pytest.fixture
def open_socket(models: list[ServedModel]) -> Iterator[Connect]:
    """Opens sockets of a server; the settings that differ from the usual ones are arguments."""
    with ExitStack() as stack:

        def start(query: str = "", **changes: Any) -> ClientConnection:
            address, _ = stack.enter_context(served(models, **changes))
            return stack.enter_context(opened(address, query))

        yield start


@contextmanager
def served(models: list[ServedModel], **changes: Any) -> Iterator[tuple[str, Service]]:
    """A server's address, and its service."""
    settings = replace(SETTINGS, **changes)
    with serving(models, DECODING, settings) as service:
        app = FastAPI()
        app.include_router(marian.routes(service))
        with running(app) as address:
            yield address, service


def opened(address: str, query: str = "") -> ClientConnection:
    return connect(f"{address.replace('http', 'ws')}/translate{query}", proxy=None, close_timeout=5)


def answer(socket: ClientConnection, message: str | bytes) -> str:
    socket.send(message)
    found = socket.recv(PATIENCE_SECONDS)
    assert isinstance(found, str)
    return found


def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which the server closes a socket."""
    with pytest.raises(ConnectionClosed) as caught:
        socket.recv(PATIENCE_SECONDS)
    assert caught.value.rcvd
    return caught.value.rcvd.code, caught.value.rcvd.reason


def test_each_line_has_its_translation_in_a_line(open_socket: Connect, offline: Offline) -> None:
    socket, sun, moon = open_socket(), offline("sun"), offline("moon star")
    for message, lines in {
        "sun": [sun],
        "sun\n": [sun],
        "sun\r\nmoon star\r\n": [sun, moon],
        "\n\nsun\n \t\nmoon star\n\n": ["", "", sun, " \t", moon, ""],
        "": [""],
        "\n": [""],
    }.items():
        assert answer(socket, message) == "\n".join(lines) + "\n", message


def test_a_message_may_have_more_lines_than_the_service_takes_texts(
    open_socket: Connect, offline: Offline
) -> None:
    lines = [("sun", "moon star", "")[number % 3] for number in range(200)]
    expected = [offline(line) if line else "" for line in ("sun", "moon star", "")]
    found = answer(open_socket(), "\n".join(lines))
    assert found == "".join(expected[number % 3] + "\n" for number in range(200))


def test_messages_that_are_sent_together_are_answered_in_order(
    open_socket: Connect, offline: Offline
) -> None:
    socket = open_socket()
    texts = ["sun moon star", "bear", "wolf sees bear", "", "moon"]
    for text in texts * 4:
        socket.send(text)
    found = [socket.recv(PATIENCE_SECONDS) for _ in texts * 4]
    assert found == [(offline(text) if text else "") + "\n" for text in texts] * 4


def test_unanswered_messages_are_bounded_and_none_is_lost(
    open_socket: Connect, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marian, "_MOST_WAITING_CHARACTERS", 4)
    socket = open_socket()
    for _ in range(10):
        socket.send("sun moon")
    assert [socket.recv(PATIENCE_SECONDS) for _ in range(10)] == [offline("sun moon") + "\n"] * 10


def test_empty_messages_are_bounded_too(open_socket: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marian, "_MOST_WAITING_CHARACTERS", 64 * 3)
    most = 0
    count = marian._Connection._count

    def watched(connection: Any, number: int, message: str) -> None:
        nonlocal most
        count(connection, number, message)
        most = max(most, connection._num_unanswered)

    monkeypatch.setattr(marian._Connection, "_count", watched)
    socket = open_socket()
    for _ in range(50):
        socket.send("")
    assert [socket.recv(PATIENCE_SECONDS) for _ in range(50)] == ["\n"] * 50
    assert 0 < most <= 4


def test_a_server_that_stops_answers_what_it_has_received_and_closes(
    models: list[ServedModel], offline: Offline
) -> None:
    with served(models) as (address, service), opened(address) as socket, opened(address) as idle:
        lines = ["", "sun moon star", "bear"] * 50  # more than the service takes at once
        socket.send("\n".join(lines))
        socket.send("moon")
        wait_until(lambda: service.num_unanswered_messages == 2)
        assert not service.is_idle
        service.stopping.set()
        socket.send("wolf")  # too late
        assert socket.recv(PATIENCE_SECONDS) == "".join(
            (offline(line) if line else "") + "\n" for line in lines
        )
        assert socket.recv(PATIENCE_SECONDS) == offline("moon") + "\n"
        for each in (socket, idle):
            assert closed(each) == (1012, "the server is stopping; try again")
        wait_until(lambda: service.is_idle)


def test_a_client_that_leaves_leaves_nothing_unanswered(models: list[ServedModel]) -> None:
    with served(models) as (address, service):
        with opened(address) as socket:
            socket.send("sun moon star\n" * 500)
            socket.send("sun")
            wait_until(lambda: service.num_unanswered_messages == 2)
        wait_until(lambda: service.is_idle)


def test_a_message_may_be_binary(open_socket: Connect, offline: Offline) -> None:
    socket = open_socket()
    assert answer(socket, b"sun\n") == offline("sun") + "\n"
    socket.send(b"sun \xff")
    assert closed(socket) == (1007, "byte 5 of the message is not UTF-8")


def test_the_query_names_the_direction(models: list[ServedModel], offline: Offline) -> None:
    translator: Any = models[1].loaded
    french = translator.translate(["sun"])[0].text
    over_german = translator.translate([offline("sun")])[0].text
    with served(models) as (address, _):
        for query, expected in {
            "": offline("sun"),
            "?source=en": offline("sun"),
            "?source=DE&target=fr": french,
            "?source=deu&target=fr-CA": french,
            "?source=de": french,
            "?source=en&target=fr": over_german,
        }.items():
            with opened(address, query) as socket:
                assert answer(socket, "sun") == expected + "\n"
        with pytest.raises(InvalidStatus) as caught, opened(address, "?source=fr"):
            pass
    assert caught.value.response.status_code == 404
    assert json.loads(caught.value.response.body)["error"]["label"] == "no_direction"


def test_a_line_that_is_too_long_closes_the_socket(open_socket: Connect) -> None:
    socket = open_socket(most_characters=10)
    assert answer(socket, "sun\nmoon\nstar").count("\n") == 3
    socket.send("sun moon star")
    code, reason = closed(socket)
    assert code == 1009
    assert "more than 10 characters" in reason


def test_a_message_that_is_too_large_closes_the_socket(
    open_socket: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marian, "MOST_BODY_BYTES", 10)
    socket = open_socket()
    socket.send("sun\nmoon\nstar")
    assert closed(socket)[0] == 1009


def test_a_message_without_time_left_closes_the_socket(open_socket: Connect) -> None:
    socket = open_socket(request_seconds=0.0)
    socket.send("sun")
    assert closed(socket)[0] == 1011


def close(socket: ClientConnection) -> None:
    socket.close()


def vanish(socket: ClientConnection) -> None:
    socket.socket.shutdown(SHUT_RDWR)


@pytest.mark.parametrize("leave", [close, vanish])
def test_a_client_that_leaves_cancels_what_it_asked_for(
    models: list[ServedModel], leave: Callable[[ClientConnection], None]
) -> None:
    line, num_lines = " ".join(["sun moon star"] * 20), 2_000
    with served(models) as (address, service):
        with opened(address) as socket:
            socket.send("\n".join([line] * num_lines))
            wait_until(lambda: service.num_queued_tokens)
            leave(socket)
            wait_until(lambda: not service.num_queued_tokens)
        with opened(address) as another:
            answer(another, "sun")
        assert service.num_queued_tokens == 0
        assert service.metrics.num_characters < num_lines * len(line) / 2


def test_a_message_waits_for_room_in_the_queue(
    open_socket: Connect, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([Refusal(429, "queue_full", "busy", {"Retry-After": "0"})] * 3)

    def refuse_thrice(*_: object) -> None:
        for refusal in refusals:
            raise refusal

    monkeypatch.setattr(Admission, "require_room", refuse_thrice)
    assert answer(open_socket(), "sun") == offline("sun") + "\n"
    assert next(refusals, None) is None


@pytest.mark.parametrize(("status", "code"), [(429, 1013), (503, 1012), (500, 1011), (422, 1007)])
def test_refusals_have_codes(status: int, code: int) -> None:
    assert marian.close_code(Refusal(status, "label", "message")) == code


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"))))
def test_lines_are_what_ends_in_a_line_feed(lines: list[str]) -> None:
    assert marian.lines_of("".join(line + "\n" for line in lines)) == lines
    assert marian.lines_of("".join(line + "\r\n" for line in lines)) == lines


def test_the_token_is_in_the_query_or_a_header(start_server: StartServer, offline: Offline) -> None:
    address = start_server(token="secret-token")
    with opened(address, "?token=secret-token") as socket:
        assert answer(socket, "sun") == offline("sun") + "\n"
    for query in ("", "?token=another"):
        with pytest.raises(InvalidStatus) as caught, opened(address, query):
            pass
        response = caught.value.response
        assert response.status_code == 401  # unlike LibreTranslate's, which has the same path
        assert response.headers["X-Content-Type-Options"] == "nosniff"
