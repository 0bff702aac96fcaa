"""The lines of the log: each names whose request it is about, and none can be made to look like two."""

import json
import logging
import socket
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.serve.conftest import SETTINGS, running
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from allyouneed.serve.access import ServerSettings
from allyouneed.serve.application import create_app
from allyouneed.serve.exchanges import Exchange
from allyouneed.serve.logs import Log
from allyouneed.serve.service import Service

TOKEN = "a-long-random-token"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
SUN = {"text": "sun", "source": "en", "target": "de"}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr("allyouneed.serve.logs.say", lines.append)
    return lines


@pytest.fixture
def address(service: Service, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with a token, behind a proxy, whose log is in `said`, as JSON."""
    settings = ServerSettings(**{**vars(SETTINGS), "token": TOKEN, "trusted_proxies": ("127.0.0.1",)})
    log = Log("json")
    monkeypatch.setattr(logging.getLogger("uvicorn"), "handlers", [log])  # and not those of other tests
    with running(create_app(service, settings, observers=[log.exchange]), settings) as found:
        yield found


def lines(said: list[str], number: int) -> list[dict[str, Any]]:
    wait_until(lambda: len(said) >= number)
    assert len(said) == number
    return [json.loads(line) for line in said]


def test_each_request_of_whatever_outcome_is_one_line_with_its_error(address: str, said: list[str]) -> None:
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client:
        client.post("/api/translate", json=SUN)
        client.headers.update(AUTHORISED)
        client.post("/api/translate", json=SUN)
        client.post("/api/translate", json=SUN, headers={"Origin": "https://evil.example"})
        client.get("/api/models", headers={"Host": "evil.example"})
        client.get("/my/secret")
        client.delete("/api/translate")
        client.post("/api/translate", content=b"x" * (2**20 + 1))
        client.post("/api/translate", json={**SUN, "text": "x" * 5_001})
        client.post("/api/translate", json={**SUN, "model": "none"})
        client.post("/translate", json={"q": "sun", "source": "xx", "target": "de"})
        client.post("/v2/translate", data={"text": "sun", "target_lang": "XX"})
        client.post("/v1/chat/completions", json={"model": "xx-yy", "messages": []})
    found = lines(said, 12)
    assert [(each["protocol"], each["status"], each["error"], each["characters"]) for each in found] == [
        ("own", 401, "no_token", 0),
        ("own", 200, None, 3),
        ("own", 403, "origin", 0),
        ("own", 421, "host", 0),
        (None, 404, "not_found", 0),
        ("own", 405, "method_not_allowed", 0),
        ("own", 413, "too_large", 0),
        ("own", 413, "too_long", 5_001),
        ("own", 404, "no_model", 3),
        ("libretranslate", 400, "no_language", 0),
        ("deepl", 400, "no_language", 0),
        ("openai", 400, "request", 0),
    ]
    assert found[3]["host"] == "evil.example"
    assert "secret" not in "".join(said)
    assert TOKEN not in "".join(said)
    assert datetime.fromisoformat(found[0]["time"]).tzinfo is not None


def test_directions_and_models_are_those_of_the_texts(address: str, said: list[str]) -> None:
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS, headers=AUTHORISED) as client:
        client.post("/api/translate", json={"text": ["sun", "moon"], "source": "en", "target": "fr"})
        client.post("/api/parse", json={"text": "sun"})
        client.post("/api/alternatives", json=SUN)
        client.post("/translate", json={"q": ["sun", "star"], "source": "en", "target": "de"})
        data = {"text": ["sun", "moon"], "source_lang": "DE", "target_lang": "FR"}
        client.post("/v2/translate", data=data)
        message = {"role": "user", "content": "sun"}
        client.post("/v1/chat/completions", json={"model": "ende", "messages": [message], "stream": True})
        with connect(f"{address.replace('http', 'ws')}/translate?token={TOKEN}", proxy=None) as marian:
            for _ in range(2):
                marian.send("sun\nmoon")
                marian.recv()
        found = lines(said, 7)
        metrics = client.get("/metrics").text
    names = "protocol", "direction", "model", "characters", "error"
    assert [tuple(each[name] for name in names) for each in found] == [
        ("own", "en-fr", "ende+defr", 7, None),
        ("own", None, "trees", 3, None),
        ("own", "en-de", "ende", 3, None),
        ("libretranslate", "en-de", "ende", 7, None),
        ("deepl", "de-fr", "defr", 7, None),
        ("openai", "en-de", "ende", 3, None),
        ("marian", "en-de", "ende", 14, None),
    ]
    check_metrics(metrics)
    characters = {
        (each.labels["protocol"], each.labels["direction"], each.labels["model"]): each.value
        for each in samples(metrics, "allyouneed_translated_characters_total")
    }
    assert characters == {
        ("own", "en-fr", "ende+defr"): 7,
        ("libretranslate", "en-de", "ende"): 7,
        ("deepl", "de-fr", "defr"): 7,
        ("openai", "en-de", "ende"): 3,
        ("marian", "en-de", "ende"): 14,
    }


def samples(metrics: str, name: str) -> list[Any]:
    families = text_string_to_metric_families(metrics)
    return [sample for family in families for sample in family.samples if sample.name == name]


def check_metrics(metrics: str) -> None:
    """What only grows is a counter with the suffix, and the values of labels are the server's."""
    types = {family.name: family.type for family in text_string_to_metric_families(metrics)}
    counters = (
        "requests",
        "translated_characters",
        "translated_sentences",
        "translated_target_tokens",
        "reloads",
    )
    assert {types[f"allyouneed_{name}"] for name in counters} == {"counter"}
    assert types["allyouneed_queue_tokens"] == "gauge"
    assert types["allyouneed_request_seconds"] == "histogram"
    assert "_created" not in metrics
    assert {each.value for each in samples(metrics, "allyouneed_reloads_total")} == {0.0}
    if sys.platform == "linux":
        assert (types["process_cpu_seconds"], types["process_resident_memory_bytes"]) == ("counter", "gauge")
        assert samples(metrics, "process_start_time_seconds")[0].value > 0


def test_clients_are_those_whom_a_trusted_proxy_names(address: str, said: list[str]) -> None:
    evil = "10.0.0.7\x85\u00e9, " * 20 + "x"
    for forwarded in ("10.0.0.7", evil):
        httpx.get(f"{address}/healthz", headers={b"X-Forwarded-For": forwarded.encode("latin-1")})
    plain, long = [each["client"] for each in lines(said, 2)]
    assert plain == "10.0.0.7"
    assert len(long) <= 100
    assert "".join(said).isascii()


def test_what_is_no_request_and_refused_handshakes_name_the_client_too(address: str, said: list[str]) -> None:
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"NONSENSE\r\n\r\n")
        assert connection.recv(1_000)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        upgrade = b"GET /translate HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade"
        connection.sendall(upgrade + b"\r\n\r\n")
        assert connection.recv(1_000)
    with pytest.raises(InvalidStatus):
        connect(f"{address.replace('http', 'ws')}/translate", proxy=None)
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"{address.replace('http', 'ws')}/none", additional_headers=AUTHORISED, proxy=None)
    nonsense, keyless, handshake, lost = lines(said, 4)
    for each in (nonsense, keyless):
        assert (each["level"], each["client"]) == ("warning", "127.0.0.1")
    names = "protocol", "status", "error"
    assert [handshake[name] for name in names] == ["marian", 401, "no_token"]
    assert [lost[name] for name in names] == [None, 403, "not_found"]


def test_a_host_cannot_look_like_other_fields_or_lines(said: list[str]) -> None:
    Log("text").exchange(Exchange("::1", "GET", "/", 'a" status=200\r\nb\x1b[0m\u2028', id="x", status=421))
    [line] = said
    assert line.isprintable()
    assert " ".join(line.split(" ")[1:]).startswith(
        'info client=::1 method=GET path=/ status=421 host="a\\" status=200\\r\\nb\\u001b[0m\\u2028" '
    )


def test_quiet_logs_tell_warnings_only(said: list[str]) -> None:
    log = Log("text", is_quiet=True)
    log.tell("serving")
    log.exchange(Exchange())
    assert said == []
    assert log.num_exchanges == 1
