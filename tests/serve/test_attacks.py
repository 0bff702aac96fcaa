"""Attacks on the real program (release tier): fuzzed, malformed, slow and curious requests."""

import itertools
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from tests.patience import wait_until
from tests.serve.test_process import Program, program

pytestmark = pytest.mark.release

REQUESTS_PER_ENDPOINT = 90
LONGEST_ANSWER_SECONDS = 0.5
GOOD = {"text": "moon star", "source": "en", "target": "de"}


@pytest.fixture
def running(toy_model: Path) -> Iterator[Program]:
    """A server that answers as well after the attack as before it, in the same process."""
    with program("--direction", f"en-de={toy_model}", "--max-wait", "600") as running:
        yield running
        answer = httpx.post(f"{running.address}/api/translate", json=GOOD, timeout=60)
        assert answer.json()["results"][0]["translations"][0]["text"] == "noomo ratso"
        assert running.process.poll() is None


def connect(running: Program) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(running.address.rpartition(":")[2])), timeout=60)


def status_of(running: Program, request: bytes) -> int | None:
    """The status of the answer; None if there is none, as for a request that has no end."""
    with connect(running) as connection:
        connection.settimeout(LONGEST_ANSWER_SECONDS)
        try:
            connection.sendall(request)
            received = connection.recv(65_536)
        except (ConnectionError, TimeoutError):
            return None
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/") else None


def test_what_the_schema_allows_and_forbids_is_answered(running: Program) -> None:
    """Promise: Hostile requests."""
    schema = schemathesis.openapi.from_url(f"{running.address}/api/openapi.json")
    statuses: list[int] = []
    for result, mode in itertools.product(
        schema.get_all_operations(), (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ):
        operation: Any = result
        operation = operation.ok()

        @settings(
            max_examples=REQUESTS_PER_ENDPOINT,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            statuses.append(case.call(base_url=running.address).status_code)

        try:
            send()
        except (schemathesis.errors.SchemathesisError, Unsatisfiable) as error:  # nothing varies in this way
            print(operation.label, mode, error)
    print(f"{len(statuses):,} requests, {len({*statuses})} statuses: {sorted({*statuses})}")
    assert len(statuses) >= 1_000
    assert max(statuses) < 500


def malformed() -> Iterator[bytes]:
    """Valid requests with something broken."""
    draw = random.Random(1)
    body = json.dumps(GOOD).encode()
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    good = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    while True:
        request = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(request))
            match draw.randrange(6):
                case 0:
                    request[place] = draw.randrange(256)
                case 1:
                    del request[place:]
                case 2:
                    request[place:place] = draw.randbytes(draw.randint(1, 40))
                case 3:
                    request[place:place] = draw.choice([b"\r\n", b"\0", b"\n", b" ", b":", b"Host: x\r\n"])
                case 4:
                    request = bytearray(request.replace(b"Content-Length: ", b"Content-Length: -", 1))
                case _:
                    wrong = b'\\ud800"' if draw.random() < 0.5 else b"\xff"
                    request = bytearray(request.replace(b"moon", wrong, 1))
            if not request:
                request = bytearray(b"\r\n")
        yield bytes(request)


def test_a_thousand_malformed_requests_do_no_harm(running: Program) -> None:
    """Promise: Hostile requests."""
    statuses = [status_of(running, request) for request in itertools.islice(malformed(), 1_000)]
    print({status: statuses.count(status) for status in {*statuses}})
    answered = [status for status in statuses if status is not None]
    assert len(answered) > len(statuses) / 2
    assert all(status < 500 for status in answered)
    assert any(status >= 400 for status in answered)


def test_two_hundred_paths_lead_nowhere(running: Program) -> None:
    """Promise: Hostile requests."""
    ups = [
        "..",
        "%2e%2e",
        "%252e%252e",
        "..%2f",
        "..%5c",
        "..\\",
        "%c0%ae%c0%ae",
        "....//",
        ".%00.",
        "%u002e%u002e",
    ]
    starts = ["/", "/web/", "/web/explorer/", "/api/", "/download_file/", "/v1/models/"]
    ends = ["etc/passwd", "%65tc%2fpasswd", "proc/self/environ", "main.js%00.css"]
    paths = [f"{start}{up}/{up}/{end}" for start, up, end in itertools.product(starts, ups, ends)][:200]
    for path in paths:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        assert status_of(running, request) in (400, 404, 405), path


def test_slow_connections_do_not_slow_others_down(running: Program) -> None:
    """Promise: Hostile requests."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(running)) for _ in range(300)]
        for number, connection in enumerate(slow):
            connection.sendall(b"POST /api/translate HTTP/1.1\r\nHost: l" if number % 2 else b"G")
        longest = 0.0
        for _ in range(4):
            for connection in slow:
                connection.sendall(b"a")
            took = wait_until(
                lambda: httpx.post(f"{running.address}/api/translate", json=GOOD).status_code == 200
            )
            longest = max(longest, took)
            time.sleep(1)
    print(f"{longest:.3f} s beside 300 slow connections")
    assert longest < 1.0
