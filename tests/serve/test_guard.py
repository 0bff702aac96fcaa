"""A machine that asks too often is told so; others, and this one, are not.

Hosts, origins, tokens, sizes and headers, over real connections.
"""

import asyncio
import contextlib
import gc
import json
import socket
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.serve.conftest import SETTINGS, StartServer

from allyouneed.serve import guard
from allyouneed.serve.access import ServerSettings, is_loopback
from allyouneed.serve.application import create_app
from allyouneed.serve.guard import POLICY, Guard, Rates
from allyouneed.serve.process import configured
from allyouneed.serve.protocols.protocol import ErrorForms
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.service import Service


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def allowed(limits: Rates, address: str, num: int) -> int:
    """How many of so many requests at once are allowed."""
    refusals: list[Refusal] = []
    for _ in range(num):
        try:
            limits.require(address)
        except Refusal as refusal:
            refusals.append(refusal)
    assert all((each.status, each.label) == (429, "too_often") for each in refusals)
    assert all(int(each.headers["Retry-After"]) >= 1 for each in refusals)
    return num - len(refusals)


def test_an_address_may_ask_so_often_and_no_more(clock: list[float]) -> None:
    limits = Rates(8)
    assert allowed(limits, "10.0.0.1", 100) == 16  # two seconds' worth at once
    assert allowed(limits, "10.0.0.2", 3) == 3
    for _ in range(5):
        clock[0] += 1
        assert allowed(limits, "10.0.0.1", 100) == 8
    clock[0] += 60
    assert allowed(limits, "10.0.0.1", 100) == 16


def test_a_rate_below_one_in_the_burst_lets_single_requests_through(clock: list[float]) -> None:
    for rate in (0.1, 0.5, 1 / 3):
        limits = Rates(rate)
        assert allowed(limits, "10.0.0.1", 5) == 1
        clock[0] += 1.001 / rate
        assert allowed(limits, "10.0.0.1", 5) == 1


def test_addresses_that_are_only_claimed_do_not_fill_the_memory(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_MOST_ADDRESSES", 10)
    limits = Rates(0.1)
    for number in range(100):
        limits.require(f"10.0.0.{number}", is_claimed=True)
        assert len(limits._paid_until) <= 10


def test_this_machine_may_ask_as_often_as_it_likes(clock: list[float]) -> None:
    limits = Rates(1)
    assert allowed(limits, "127.0.0.1", 1_000) == allowed(limits, "", 1_000) == 1_000


def test_addresses_that_are_quiet_are_forgotten(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_MOST_ADDRESSES", 10)
    limits = Rates(1)
    for number in range(100):
        clock[0] += 1
        limits.require(f"10.0.0.{number}")
    assert len(limits._paid_until) <= 11


def test_the_state_of_a_document_is_told_however_busy_the_server_is(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise Refusal(429, "busy", "the server is busy")

    monkeypatch.setattr(service._admission, "require_room", refuse)
    app = create_app(service, SETTINGS)

    async def ask(path: str) -> int:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.post(path, data={"document_key": "none"})).status_code

    assert asyncio.run(ask("/v2/translate")) == 429
    assert asyncio.run(ask("/v2/document/none")) == asyncio.run(ask("/v2/document/none/result")) == 404


def test_clients_of_a_trusted_proxy_are_counted_one_by_one(service: Service, clock: list[float]) -> None:
    """The proxy appends the address of its client to what that has claimed."""
    settings = replace(SETTINGS, requests_per_second=1, trusted_proxies=("172.16.0.0/12",))
    config = configured(create_app(service, settings), settings)
    config.load()

    async def ask(peer: str, forwarded: str) -> list[int]:
        transport = httpx.ASGITransport(config.loaded_app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"X-Forwarded-For": forwarded} if forwarded else {}
            return [(await client.get("/api/models", headers=headers)).status_code for _ in range(3)]

    limited, free = [200, 200, 429], [200, 200, 200]
    assert asyncio.run(ask("172.17.0.1", "10.0.0.1")) == limited
    assert asyncio.run(ask("172.17.0.1", "10.0.0.2")) == limited
    assert asyncio.run(ask("172.17.0.1", "127.0.0.1, 10.0.0.3")) == limited
    assert asyncio.run(ask("10.0.0.4", "10.0.0.5")) == limited
    assert asyncio.run(ask("10.0.0.4", "10.0.0.6")) == [429] * 3, "any client could claim to be many"
    assert asyncio.run(ask("172.17.0.2", "127.0.0.1")) == limited, "any client could claim to be here"
    assert asyncio.run(ask("127.0.0.1", "")) == free


def test_the_server_limits_other_machines(service: Service, clock: list[float]) -> None:
    """Not this one, such as a proxy that is not trusted to name its clients."""
    app = create_app(service, replace(SETTINGS, requests_per_second=1))

    async def ask(address: str, path: str) -> list[int]:
        transport = httpx.ASGITransport(app, client=(address, 1))
        headers = {"X-Forwarded-For": "10.0.0.9"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.get(path, headers=headers)).status_code for _ in range(4)]

    assert asyncio.run(ask("10.0.0.1", "/api/models")) == [200, 200, 429, 429]
    assert asyncio.run(ask("10.0.0.1", "/healthz")) == [200] * 4
    assert asyncio.run(ask("127.0.0.1", "/api/models")) == [200] * 4


TOKEN = "a-long-random-token"
BODY = {"text": "sun", "source": "en", "target": "de"}
JSON = b"Content-Type: application/json\r\n"


def exchange(address: str, request: bytes, *, seconds: float = PATIENCE_SECONDS) -> bytes:
    """Send bytes and read until the server closes the connection, or answers and waits."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def post(body: bytes, headers: bytes = JSON, path: bytes = b"/api/translate") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n%b" % (
        path,
        headers,
        len(body),
        body,
    )


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.fixture
def address(start_server: StartServer) -> str:
    return start_server()


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        (b"GET /healthz HTTP/1.1\r\nHost: 10.0.0.1\r\nConnection: close\r\n\r\n", 421),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost.evil.example\r\nConnection: close\r\n\r\n", 421),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"GET /web/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"GET /web/%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"DELETE /api/translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n", 400),
        (post(b""), 400),
        (post(b"{"), 400),
        (post(b'{"text": "a", "text": "b"}'), 400),
        (post(b'{"text": "\\ud800"}'), 400),
        (post(b'{"text": "a", "n_best": NaN}'), 400),
        (post(b'{"text": "a", "length_penalty": 1e999}'), 400),
        (post(b"[" * 100_000), 400),
        (post(b"{" + b", ".join(b'"%d": 1' % number for number in range(1_001)) + b"}"), 400),
        (post(b"\xff\xfe{"), 400),
        (post(b'{"text": "a"}', b"Content-Type: text/plain\r\n"), 415),
        (post(b'{"text": "a"}', b"Content-Type: application/json; charset=utf-16\r\n"), 415),
        (post(b'{"text": "a"}', b""), 415),
        (post(b"\x1f\x8b", JSON + b"Content-Encoding: gzip\r\n"), 415),
        (post(b'{"text": "a", "model": "../../etc"}'), 422),
        (b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", 413),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\n\r\n",
            400,  # and the connection is closed: what follows is not taken for another request
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_malformed_requests_have_their_answers(address: str, request_bytes: bytes, expected: int) -> None:
    """Promise: Hostile requests."""
    assert status(exchange(address, request_bytes)) == expected


def test_an_endless_body_ends_at_a_mebibyte(address: str) -> None:
    head = (
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent < 64 * 2**20:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass  # the server has closed the connection
        assert sent < 64 * 2**20
    assert httpx.get(f"{address}/healthz").status_code == 200


def kept_refusals() -> int:
    """Number of frames that refusals keep alive, with the bodies in them."""
    gc.collect()
    refusals = [each for each in gc.get_objects() if type(each) is Refusal]
    return sum(len(traceback.extract_tb(each.__traceback__)) for each in refusals)


def test_nothing_is_kept_of_a_body_that_is_too_large(address: str) -> None:
    before = kept_refusals()
    body = b"100001\r\n" + b"a" * (2**20 + 1) + b"\r\n0\r\n\r\n"
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    statuses: list[int] = []

    def have_come() -> bool:
        with contextlib.suppress(ConnectionError):  # the server does not wait for the rest
            statuses.append(status(exchange(address, head + body)))
        return len(statuses) == 3

    wait_until(have_come)
    assert statuses == [413, 413, 413]
    assert httpx.get(f"{address}/healthz").status_code == 200
    assert kept_refusals() <= before


def test_every_answer_has_the_headers_that_protect(address: str) -> None:
    for response in (
        httpx.get(f"{address}/healthz"),
        httpx.get(f"{address}/nothing"),
        httpx.post(f"{address}/api/translate", json=BODY),
        httpx.post(f"{address}/api/translate", json={}),
    ):
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"
        assert "server" not in response.headers


def test_pages_of_other_sites_can_neither_ask_nor_read(start_server: StartServer) -> None:
    address = start_server(allowed_origins=("https://good.example",))
    with httpx.Client(base_url=address) as client:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            refused = client.post("/api/translate", json=BODY, headers={"Origin": origin})
            assert (refused.status_code, refused.json()["error"]["label"]) == (403, "origin")
            assert client.options("/api/translate", headers={"Origin": origin}).status_code == 403
            read = client.get("/api/models", headers={"Origin": origin})
            assert "access-control-allow-origin" not in read.headers
        own = client.post("/api/translate", json=BODY, headers={"Origin": address})
        assert own.status_code == 200
        good = {"Origin": "https://good.example"}
        answered = client.post("/api/translate", json=BODY, headers=good)
        assert answered.headers["access-control-allow-origin"] == "https://good.example"
        permitted = client.options("/api/translate", headers=good)
        assert permitted.status_code == 204
        assert permitted.headers["access-control-allow-methods"] == "GET, POST, DELETE"
        assert permitted.headers["access-control-allow-headers"] == "authorization, content-type, x-api-key"


OPENAI = (
    "authorization,content-type,openai-organization,openai-project,user-agent,x-stainless-arch,"
    "x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,"
    "x-stainless-runtime,x-stainless-runtime-version"
)
"""What a browser asks for a request of the npm package openai, in its form: sorted, without spaces."""


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", OPENAI),
        ("/v1/models", "authorization,http-referer,openai-beta,traceparent,x-title"),
        ("/v2/translate", "authorization,content-type,user-agent,x-requested-with"),
        ("/translate", "api-key, cache-control, content-type"),
        ("/api/stream", "accept,content-type,x-api-key"),
    ],
)
def test_pages_of_allowed_sites_may_send_the_headers_of_their_clients(
    start_server: StartServer, path: str, asked: str
) -> None:
    address = start_server(allowed_origins=("https://good.example",), token=TOKEN)
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    with httpx.Client(base_url=address) as client:
        permitted = client.options(path, headers=preflight | {"Origin": "https://good.example"})
        assert (permitted.status_code, permitted.headers["access-control-allow-headers"]) == (204, asked)
        assert permitted.headers["access-control-allow-origin"] == "https://good.example"
        refused = client.options(path, headers=preflight | {"Origin": "https://evil.example"})
        assert refused.status_code == 403
        assert not any(name.startswith("access-control") for name in refused.headers)


@pytest.mark.parametrize("asked", ["a b", "a,,b", "a,", "ä", "a\tb", "a:b", "x" * 5_000, ""])
def test_a_list_of_headers_that_no_browser_sends_is_not_repeated(
    start_server: StartServer, asked: str
) -> None:
    address = start_server(allowed_origins=("https://good.example",))
    headers = {b"Origin": b"https://good.example", b"Access-Control-Request-Headers": asked.encode()}
    permitted = httpx.options(f"{address}/v1/models", headers=headers)
    assert permitted.headers["access-control-allow-headers"] == "authorization, content-type, x-api-key"


@pytest.mark.parametrize(
    "sent",
    [
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
        {"headers": {"Authorization": f"DeepL-Auth-Key {TOKEN}"}},
        {"headers": {"X-API-Key": TOKEN}},
    ],
    ids=str,
)
def test_the_token_is_taken_as_each_client_sends_it(start_server: StartServer, sent: dict[str, Any]) -> None:
    address = start_server(token=TOKEN)
    assert httpx.post(f"{address}/api/translate", json=BODY, **sent).status_code == 200
    for wrong in ("x", TOKEN[:-1], TOKEN + "x"):
        changed: Any = {
            kind: {key: value.replace(TOKEN, wrong) for key, value in of_kind.items()}
            for kind, of_kind in sent.items()
        }
        refused = httpx.post(f"{address}/api/translate", json=BODY, **changed)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert refused.json()["error"]["label"] in ("no_token", "wrong_token")
        refused = httpx.post(f"{address}/v2/translate", json=BODY, **changed)
        assert refused.json()["message"].endswith("send Authorization: DeepL-Auth-Key TOKEN")


def test_a_token_in_a_field_is_for_the_clients_of_libretranslate(start_server: StartServer) -> None:
    address = start_server(token=TOKEN)
    asked = {"q": "sun", "source": "en", "target": "de"}
    for form in ("json", "data"):
        body: dict[str, Any] = {form: asked | {"api_key": TOKEN}}
        assert httpx.post(f"{address}/translate", **body).status_code == 200
    parts = {name: (None, value) for name, value in (asked | {"api_key": TOKEN}).items()}
    assert httpx.post(f"{address}/translate", files=parts).status_code == 200
    assert httpx.post(f"{address}/translate", files=parts | {"api_key": (None, "x")}).status_code == 403
    in_query = asked | {"api_key": TOKEN}
    assert httpx.post(f"{address}/translate", params=in_query).status_code == 200
    assert httpx.post(f"{address}/api/translate", json=BODY, params={"api_key": TOKEN}).status_code == 401
    for many in ("&a=%41" * 1_001, "&a=b" * 1_001):  # too many to look for a token in them
        form = f"q=sun&source=en&target=de&api_key={TOKEN}{many}"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        refused = httpx.post(f"{address}/translate", content=form, headers=headers)
        assert (refused.status_code, "API key" in refused.text) == (400, True)
    assert httpx.post(f"{address}/translate", json=asked | {"api_key": "x"}).json() == {
        "error": "Invalid API key"
    }
    assert httpx.post(f"{address}/api/translate", json=BODY | {"api_key": TOKEN}).status_code == 401


def test_without_the_token_only_the_state_is_told(start_server: StartServer) -> None:
    address = start_server(token=TOKEN)
    assert httpx.get(f"{address}/healthz").status_code == 200
    assert httpx.get(f"{address}/readyz").status_code == 200
    listed = httpx.get(f"{address}/api/models").json()
    assert (listed["needs_token"], listed["models"], listed["directions"]) == (True, [], [])
    listed = httpx.get(f"{address}/api/models", headers={"X-API-Key": TOKEN}).json()
    assert len(listed["models"]) == 3
    for path in ("/metrics", "/api/openapi.json", "/nothing"):
        assert httpx.get(f"{address}{path}").status_code == 401


def test_without_the_token_nothing_of_a_file_is_awaited(start_server: StartServer) -> None:
    address = start_server(token=TOKEN, files=True)
    for path, refused in ((b"/v2/document", 403), (b"/api/transcribe", 401)):
        assert status(exchange(address, post(b"a", path=path).removesuffix(b"a"))) == refused


def test_a_recording_may_be_longer_than_a_text(address: str) -> None:
    recording = {"file": ("a.wav", b"a" * 2_000_000)}
    refused = httpx.post(f"{address}/api/transcribe", files=recording).json()["error"]
    assert refused["label"] != "too_large"
    assert httpx.post(f"{address}/translate_file", files=recording).status_code == 413  # without --files


def test_a_host_must_be_named_unless_it_is_an_address_and_the_server_is_open(
    start_server: StartServer,
) -> None:
    address = start_server(host="0.0.0.0", allowed_hosts=("translate.example",))
    for host, expected in (
        ("translate.example", 200),
        ("10.1.2.3:80", 200),
        ("[fe80::1]", 200),
        ("x.example", 421),
    ):
        assert httpx.get(f"{address}/healthz", headers={"Host": host}).status_code == expected


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


def test_work_for_a_client_that_has_gone_is_stopped(start_server: StartServer) -> None:
    """Promise: Stopping."""
    address = start_server()
    port = int(address.rpartition(":")[2])
    texts = ["sun moon " * 500] * 8  # not done before it is looked for
    body = json.dumps({"source": "en", "target": "de", "text": texts, "beam_size": 16}).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(post(body))
    with httpx.Client(base_url=address) as client:

        def is_idle() -> bool:
            return "allyouneed_queue_tokens 0.0" in client.get("/metrics").text

        wait_until(lambda: not is_idle())
        connection.close()
        wait_until(is_idle)
        metrics = client.get("/metrics").text
    assert 'path="/api/translate",protocol="own",status="499"} 1.0' in metrics


def test_what_is_not_done_when_the_server_has_to_end_is_refused() -> None:
    began = threading.Event()

    async def never_answers(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            began.set()
            await asyncio.Event().wait()

    settings = ServerSettings()
    stopping = threading.Event()
    app = Guard(never_answers, settings, ErrorForms(), (), stopping.is_set, lambda: None)
    config = configured(app, settings)
    config.port, config.timeout_graceful_shutdown, config.lifespan = 0, 0, "off"
    server = uvicorn.Server(config)
    serving = threading.Thread(target=server.run)
    serving.start()
    wait_until(lambda: server.started)
    with ThreadPoolExecutor(1) as pool:
        port = server.servers[0].sockets[0].getsockname()[1]
        asking = pool.submit(httpx.get, f"http://127.0.0.1:{port}/", timeout=PATIENCE_SECONDS)
        assert began.wait(PATIENCE_SECONDS)
        stopping.set()
        server.should_exit = True
        answer = asking.result(PATIENCE_SECONDS)
    serving.join()
    assert (answer.status_code, answer.json()["error"]["label"]) == (503, "stopping")
    assert answer.headers["connection"] == "close"


def test_a_request_id_is_kept_if_it_is_plain(address: str) -> None:
    kept = httpx.get(f"{address}/healthz", headers={"X-Request-Id": "abc-1"})
    assert kept.headers["x-request-id"] == "abc-1"
    changed = httpx.get(f"{address}/healthz", headers={"X-Request-Id": "a b"})
    assert len(changed.headers["x-request-id"]) == 16
