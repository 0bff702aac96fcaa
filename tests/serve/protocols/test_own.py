"""The server's own endpoints, over real connections."""

import difflib
import json
import re
import socket
from typing import Any

import httpx
import pytest
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.serve.conftest import StartServer

from allyouneed.serve.models import ServedModel


def events_of(response: httpx.Response) -> list[tuple[str, Any]]:
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", response.text)
    return [(name, json.loads(data)) for name, data in found]


def test_one_text_and_many_are_translated(client: httpx.Client, models: list[ServedModel]) -> None:
    translator: Any = models[0].loaded
    [sun, moon] = translator.translate(["sun", "moon star"], split_sentences=True)
    body = {"source": "en", "target": "de", "text": "sun"}
    response = client.post("/api/translate", json=body)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    expected = {
        "translations": [{"text": sun.text, "score": sun.score}],
        "source": "en",
        "target": "de",
        "models": ["ende"],
        "segments": [{"source": "sun", "text": sun.text, "before": ""}],
        "notices": [],
    }
    assert response.json() == {"results": [expected]}
    answer = client.post(
        "/api/translate", json=body | {"text": ["sun", "moon star"], "alignments": True}
    ).json()
    texts = [result["translations"][0] for result in answer["results"]]
    assert [text["text"] for text in texts] == [sun.text, moon.text]
    assert texts[1]["alignment"] == [[0, 0], [1, 1]]
    [over] = client.post(
        "/api/translate", json={"source": "en", "target": "fr", "text": "sun", "alignments": True}
    ).json()["results"]
    assert over["translations"][0]["alignment"] == []


def test_options_in_the_query_are_refused_by_name(client: httpx.Client) -> None:
    answer = client.post("/api/translate?sorce=en", json={"text": "sun"})
    message = "sorce has no effect in the query; send options in the JSON body"
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)


def test_a_text_that_is_not_plain_is_translated_with_a_notice(client: httpx.Client) -> None:
    body = {"source": "en", "target": "fr", "text": ["sun", "sun {name} moon"]}
    results = client.post("/api/translate", json=body).json()["results"]
    notice = "the text has a placeholder (`{name}`), which is translated as words"
    assert [each["notices"] for each in results] == [[], [notice]]


def test_options_reach_the_search(client: httpx.Client, models: list[ServedModel]) -> None:
    translator: Any = models[0].loaded
    body = {"model": "ende", "text": "sun moon", "n_best": 3, "beam_size": 5, "length_penalty": 1.5}
    found = client.post("/api/translate", json=body | {"prefix": "o"}).json()["results"][0]["translations"]
    [expected] = translator.stream(["sun moon"], n_best=3, beam_size=5, length_penalty=1.5)
    assert len(found) == 3
    assert all(each["text"].startswith("o") for each in found)
    found = client.post("/api/translate", json=body).json()["results"][0]["translations"]
    assert found == [{"text": each.text, "score": each.score} for each in expected]


def test_a_stream_has_events(client: httpx.Client) -> None:
    body = {"source": "en", "target": "de", "text": "moon star"}
    response = client.post("/api/stream", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    *certain, (last, result) = events_of(response)
    assert {name for name, _ in certain} == {"certain"}
    assert last == "done"
    assert result == client.post("/api/translate", json=body).json()["results"][0]
    assert certain[-1][1]["text"] == result["translations"][0]["text"]
    refused = client.post("/api/stream", json=body | {"target": "xx"})
    assert (refused.status_code, refused.json()["error"]["label"]) == (404, "no_direction")


def test_a_text_in_the_target_language_stays_as_it_is(client: httpx.Client) -> None:
    french = "Deux chiens courent sur la plage avec un ballon rouge."
    body = {"text": french, "source": "auto", "target": "fr-CA"}
    [found] = client.post("/api/translate", json=body).json()["results"]
    assert 0.9 < found.pop("confidence") <= 1
    assert found == {
        "translations": [{"text": french, "score": 0.0}],
        "source": "fr",
        "target": "fr",
        "models": [],
        "segments": [{"source": french, "text": french, "before": ""}],
        "notices": ["the text is in the target language already and stays as it is"],
    }
    [(name, result)] = events_of(client.post("/api/stream", json=body))
    assert (name, result["translations"]) == ("done", found["translations"])
    assert client.post("/api/detect", json={"text": french}).json()["languages"][0]["language"] == "fr"


def test_alternatives_go_on_differently_after_the_prefix(client: httpx.Client) -> None:
    # The toy model has never read the first word, so it is not sure.
    body = {"model": "ende", "text": "a star bear sees wolf", "alignments": True}
    [best] = client.post("/api/translate", json=body).json()["results"][0]["translations"]
    for prefix in ("", best["text"].split()[0]):
        found = client.post("/api/alternatives", json=body | {"prefix": prefix}).json()["alternatives"]
        texts = [each["text"] for each in found]
        assert len(set(texts)) == len(texts) > 1
        assert all(text.startswith(prefix) for text in texts)
        assert best["text"] in texts
        assert all("alignment" in each for each in found)
    several = client.post("/api/alternatives", json=body | {"text": "sun\nmoon"})
    assert (several.status_code, several.json()["error"]["label"]) == (422, "several_lines")
    refused = client.post("/api/alternatives", json=body | {"prefix": "a " * 2_000})
    assert (refused.status_code, refused.json()["error"]["label"]) == (422, "too-long")


def test_sentences_are_parsed_and_attention_is_shown(client: httpx.Client) -> None:
    [parse] = client.post("/api/parse", json={"text": "the sun sees the moon ."}).json()["results"]
    assert parse["tree"].startswith("(TOP (S (NP")
    assert set(parse) == {"tree", "score", "confidence", "repaired"}
    document = client.post("/api/attention", json={"text": "moon star", "model": "ende"}).json()
    assert document["format"] == "allyouneed attention 1"
    assert document["sequences"]["source"]["text"] == "moon star"


def test_what_is_served_is_listed(client: httpx.Client, models: list[ServedModel]) -> None:
    listed = client.get("/api/models").json()
    assert [model["name"] for model in listed["models"]] == ["ende", "defr", "trees"]
    assert listed["models"][0] == {
        "name": "ende",
        "task": "translation",
        "precision": models[0].precision,
        "source": "en",
        "target": "de",
    }
    assert listed["directions"][2] == {"source": "en", "target": "fr", "models": ["ende", "defr"]}
    assert listed["languages"]["de"] == "German"
    assert listed["limits"] == {"characters": 5_000, "texts": 64, "beam_size": 16}
    assert listed["needs_token"] is False
    languages = client.post("/api/detect", json={"text": "Das Wetter ist heute sehr schön."}).json()
    assert languages["languages"][0]["language"] == "de"


def test_the_schema_lists_the_endpoints_and_their_limits(client: httpx.Client) -> None:
    schema = client.get("/api/openapi.json").json()
    assert set(schema["paths"]) == {
        f"/api/{name}"
        for name in (
            *("translate", "stream", "alternatives", "parse", "transcribe", "attention", "detect", "models"),
        )
    }
    assert schema["components"]["schemas"]["TranslateBody"]["properties"]["n_best"]["maximum"] == 16


def test_the_state_of_the_server_is_told(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    client.post("/api/translate", json={"text": "sun", "model": "ende"})
    client.get("/nothing")
    metrics = client.get("/metrics").text
    served = 'direction="en-de",model="ende"'
    assert (
        f'allyouneed_requests_total{{{served},path="/api/translate",protocol="own",status="200"}} 1.0'
        in metrics
    )
    assert 'direction="",model="",path="other",protocol="",status="404"} 1.0' in metrics
    assert f'allyouneed_translated_characters_total{{{served},protocol="own"}} 3.0' in metrics
    assert "allyouneed_queue_tokens 0.0" in metrics


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"text": 7}, 422),
        ({"n_best": 0}, 422),
        ({"n_best": 17}, 422),
        ({"beam_size": 10**9}, 422),
        ({"n_best": True}, 422),
        ({"n_best": 1.5}, 422),
        ({"n_best": 5, "beam_size": 4}, 422),
        ({"length_penalty": -1}, 422),
        ({"unknown": 1}, 422),
        ({"model": "../../etc"}, 422),
        ({"model": "nobody"}, 404),
        ({"text": ["sun"] * 65}, 422),
        ({"text": "s" * 5_001}, 413),
        ({"target": "xx"}, 404),
    ],
    ids=str,
)
def test_wrong_values_are_refused_in_one_form(
    client: httpx.Client, change: dict[str, Any], status: int
) -> None:
    body = {"source": "en", "target": "de", "text": "sun"}
    response = client.post("/api/translate", json=body | change)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) <= {"label", "message", "details"}
    assert "\n" not in error["message"]


def test_of_many_wrong_fields_the_first_ones_are_looked_at(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    find = difflib.get_close_matches

    def counted(word: str, *arguments: Any, **options: Any) -> list[str]:
        looked_at.append(word)
        return find(word, *arguments, **options)

    monkeypatch.setattr("allyouneed.serve.refusals.difflib.get_close_matches", counted)
    found = client.post("/api/translate", json={"text": "sun"} | {f"sourc{n}": 1 for n in range(900)})
    assert found.status_code == 422
    assert 20 <= len(looked_at) <= 100
    assert len(found.content) < 2_000
    found = client.post("/api/translate", json={"text": "sun"} | {f"sourc{n}": 1 for n in range(20_000)})
    assert found.status_code == 400
    assert len(looked_at) <= 100
    assert "an object has more than 1,000 keys" in found.text


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_with_a_slash_at_its_end_is_another_and_redirects_nobody(
    client: httpx.Client, method: str
) -> None:
    found = client.request(method, "/api/translate/", json={"text": "sun"}, follow_redirects=False)
    assert found.status_code == 404


def test_a_busy_server_says_when_to_come_back(start_server: StartServer) -> None:
    address = start_server(most_wait_seconds=0.0)
    port = int(address.rpartition(":")[2])
    slow = {"text": ["sun moon star " * 300] * 8, "source": "en", "target": "de", "beam_size": 16}
    body = json.dumps(slow).encode()
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with (
        httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client,
        socket.create_connection(("127.0.0.1", port)) as other,  # its work ends when it is closed
    ):
        other.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        wait_until(lambda: "allyouneed_queue_tokens 0.0" not in client.get("/metrics").text)
        refused = client.post("/api/translate", json={"text": "sun", "model": "ende"})
    assert (refused.status_code, refused.json()["error"]["label"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
