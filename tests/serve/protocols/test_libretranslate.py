"""LibreTranslate's protocol, over HTTP."""

import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serve.conftest import SETTINGS
from tests.serve.protocols.conftest import Offline, Serve

from allyouneed.serve.protocols import libretranslate
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_TEXTS

ENGLISH = "two dogs are running on the beach with a red ball"
SPANISH = "dos perros corren por la playa con una pelota roja"


@pytest.fixture(scope="module")
def client(serve: Serve) -> Iterator[httpx.Client]:
    with serve(SETTINGS) as client:
        yield client


FIELDS = {"q": "sun moon", "source": "en", "target": "es"}


@pytest.mark.parametrize("how", ["json", "data", "params"])
def test_fields_may_be_json_a_form_or_the_query(client: httpx.Client, offline: Offline, how: str) -> None:
    response = client.post("/translate", **{how: FIELDS})  # type: ignore[arg-type]
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == {"translatedText": offline("sun moon")}


def test_fields_may_be_parts_of_a_multipart_form_and_files_are_ignored(
    client: httpx.Client, offline: Offline
) -> None:
    parts = {name: (None, value) for name, value in FIELDS.items()}
    assert client.post("/translate", files=parts).json() == {"translatedText": offline("sun moon")}
    answer = client.post("/translate", files={**parts, "q": ("q.txt", b"sun")})
    assert answer.json() == {"error": "Invalid request: missing q parameter"}


def test_the_query_comes_before_the_form_and_the_first_of_equal_fields_counts(
    client: httpx.Client, offline: Offline
) -> None:
    form = {"q": "star", "source": "en", "target": ["es", "xx"]}
    assert client.post("/translate", data=form).json() == {"translatedText": offline("star")}
    both = client.post("/translate?q=sun&target=es&target=xx", data=form)
    assert both.json() == {"translatedText": offline("sun")}


@pytest.mark.parametrize("how", ["data", "params"])
def test_several_texts_of_a_form_or_the_query_are_a_list(
    client: httpx.Client, offline: Offline, how: str
) -> None:
    fields = {**FIELDS, "q": ["sun\r\nmoon", "", "star"]}
    answer = client.post("/translate", **{how: fields}).json()  # type: ignore[arg-type]
    assert answer == {"translatedText": [f"{offline('sun')}\n{offline('moon')}", "", offline("star")]}
    fields["q"] = ["sun"] * (MOST_TEXTS + 1)
    assert "exceeds text limit" in client.post("/translate", **{how: fields}).json()["error"]  # type: ignore[arg-type]


def test_a_list_is_answered_with_lists(client: httpx.Client, offline: Offline) -> None:
    fields = {**FIELDS, "q": ["sun", "moon star"], "source": "auto", "alternatives": 2}
    answer = client.post("/translate", json=fields).json()
    assert answer["translatedText"] == [offline("sun"), offline("moon star")]
    assert [len(each) for each in answer["alternatives"]] == [2, 2]
    first, second = answer["detectedLanguage"]
    assert first == second
    assert first.keys() == {"confidence", "language"}


@pytest.mark.parametrize("alternatives", [1, 3, 7, 15, "3", 3.0])
def test_alternatives_are_other_translations(
    client: httpx.Client, offline: Offline, alternatives: float | str
) -> None:
    answer = client.post("/translate", json={**FIELDS, "alternatives": alternatives}).json()
    assert answer.keys() == {"translatedText", "alternatives"}
    assert answer["translatedText"] == offline("sun moon")
    assert 1 <= len(answer["alternatives"]) <= int(alternatives)
    assert len({answer["translatedText"], *answer["alternatives"]}) == 1 + len(answer["alternatives"])


@pytest.mark.parametrize("alternatives", [0, -3, "-1"])
def test_no_alternatives_are_not_mentioned(
    client: httpx.Client, offline: Offline, alternatives: int | str
) -> None:
    answer = client.post("/translate", json={**FIELDS, "alternatives": alternatives})
    assert answer.json() == {"translatedText": offline("sun moon")}


@pytest.mark.parametrize(("text", "source", "target"), [(ENGLISH, "en", "es"), (SPANISH, "es", "en")])
def test_the_language_of_a_text_is_detected(
    client: httpx.Client, text: str, source: str, target: str
) -> None:
    answer = client.post("/translate", json={"q": text, "source": "auto", "target": target}).json()
    given = client.post("/translate", json={"q": text, "source": source, "target": target}).json()
    assert answer["translatedText"] == given["translatedText"] != text
    assert answer["detectedLanguage"]["language"] == source
    assert 90 < answer["detectedLanguage"]["confidence"] <= 100
    assert given.keys() == {"translatedText"}


def test_a_text_in_the_target_language_stays_as_it_is(client: httpx.Client) -> None:
    auto = client.post("/translate", json={"q": SPANISH, "source": "auto", "target": "es"}).json()
    assert auto["translatedText"] == SPANISH
    assert auto["detectedLanguage"]["language"] == "es"
    assert client.post("/translate", json={**FIELDS, "target": "en"}).json() == {"translatedText": "sun moon"}


@pytest.mark.parametrize("text", ["😀", "👍🏽 ❤️ 🇩🇪", " \n "])
def test_a_text_without_words_stays_as_it_is(client: httpx.Client, text: str) -> None:
    answer = client.post("/translate", json={"q": text, "source": "auto", "target": "es", "alternatives": 1})
    detected = {"confidence": 0.0, "language": "en"}
    assert answer.json() == {"translatedText": text, "detectedLanguage": detected, "alternatives": []}


def test_line_breaks_are_kept(client: httpx.Client, offline: Offline) -> None:
    expected = {"translatedText": f"{offline('sun')}\n\n{offline('moon')}"}
    assert client.post("/translate", json={**FIELDS, "q": "sun\n\nmoon"}).json() == expected
    assert client.post("/translate", data={**FIELDS, "q": "sun\r\n\r\nmoon"}).json() == expected


def test_the_text_of_html_is_translated_and_its_tags_and_entities_are_kept(
    client: httpx.Client, offline: Offline
) -> None:
    document = (
        '<p class="a">sun <b>moon</b></p>\n<script>if (sun < moon) {}</script>'
        "<i translate=no>star</i><br>tree\n river<td>1 &amp; 2"
    )
    answer = client.post("/translate", json={**FIELDS, "q": document, "format": "html", "alternatives": 3})
    sentence, found = offline("sun moon"), answer.json()["translatedText"]
    begin = len('<p class="a">') + len("<b></b></p>") + len(html.escape(sentence))
    assert re.sub("</?b>", "", found[:begin]) == f'<p class="a">{html.escape(sentence)}</p>'
    assert found[:begin].count("<b>") == found[:begin].count("</b>") == 1
    assert found[begin:] == (
        "\n<script>if (sun < moon) {}</script>"
        f"<i translate=no>star</i><br>{html.escape(offline('tree river'))}<td>1 &amp; 2"
    )
    assert answer.json()["alternatives"] == []


def test_signs_of_html_that_begin_no_tag_are_kept(client: httpx.Client, offline: Offline) -> None:
    fields = {**FIELDS, "q": "sun <3 moon < star", "format": "html"}
    expected = f"{offline('sun')} <3 {offline('moon')} < {offline('star')}"
    assert client.post("/translate", json=fields).json() == {"translatedText": expected}


def test_html_may_have_more_texts_than_a_request(client: httpx.Client, offline: Offline) -> None:
    fields = {**FIELDS, "q": ["<p>sun</p>" * 100, "", "<hr>", "<p>moon</p>"], "format": "html"}
    translated = client.post("/translate", json=fields).json()["translatedText"]
    sun = offline("sun")
    assert translated == [f"<p>{sun}</p>" * 100, "", "<hr>", f"<p>{offline('moon')}</p>"]


GERMAN = "zwei Hunde laufen mit einem roten Ball über den Strand"


@pytest.mark.parametrize("fields", [{}, {"format": "html"}, {"alternatives": 3}])
def test_a_text_in_a_language_that_is_only_translated_to_is_detected(
    client: httpx.Client, fields: dict[str, Any]
) -> None:
    body = {"q": [GERMAN, GERMAN], "source": "auto", "target": "DE-at", **fields}
    answer = client.post("/translate", json=body).json()
    detected = {"confidence": 100.0, "language": "de"}
    assert (answer["translatedText"], answer["detectedLanguage"]) == ([GERMAN] * 2, [detected] * 2)
    assert answer.get("alternatives", [[], []]) == [[], []]
    assert client.post("/detect", json={"q": GERMAN}).json() == [detected]


def test_codes_of_variants_are_libretranslates(client: httpx.Client, offline: Offline) -> None:
    for code in ("pb", "pt-BR", "pt-br", "PT-BR", "pt_BR"):
        answer = client.post("/translate", json={"q": "sun", "source": "ES", "target": code}).json()
        assert answer == {"translatedText": offline("sun")}


def test_unknown_fields_are_ignored(client: httpx.Client) -> None:
    for how in ("json", "data", "params"):
        fields = {**FIELDS, "apiKey": "", "api_key": "", "secret": "x", "beam_size": "10000"}
        assert client.post("/translate", **{how: fields}).status_code == 200  # type: ignore[arg-type]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"q": None}, "Invalid request: missing q parameter"),
    ({"q": ""}, "Invalid request: missing q parameter"),
    ({"q": []}, "Invalid request: missing q parameter"),
    ({"q": 5}, "Invalid request: q parameter is not a text or a list of texts"),
    ({"q": ["sun", None]}, "Invalid request: q parameter is not a text or a list of texts"),
    ({"q": {"sun": "moon"}}, "Invalid request: q parameter is not a text or a list of texts"),
    ({"source": ""}, "Invalid request: missing source parameter"),
    ({"source": None}, "Invalid request: missing source parameter"),
    ({"target": ""}, "Invalid request: missing target parameter"),
    ({"source": "zz"}, "zz is not supported"),
    ({"target": "ZZ"}, "zz is not supported"),
    ({"target": "auto"}, "auto is not supported"),
    ({"target": ["es"]}, "['es'] is not supported"),
    ({"target": "x" * 1000}, "x" * 40 + " is not supported"),
    ({"format": "xml"}, "xml format is not supported"),
    ({"alternatives": "some"}, "Invalid request: alternatives parameter is not a number"),
    ({"alternatives": "2.5"}, "Invalid request: alternatives parameter is not a number"),
    ({"alternatives": None}, "Invalid request: alternatives parameter is not a number"),
    ({"alternatives": [1]}, "Invalid request: alternatives parameter is not a number"),
    ({"alternatives": 16}, "Invalid request: alternatives parameter must be <= 15"),
    ({"alternatives": 10000}, "Invalid request: alternatives parameter must be <= 15"),
    ({"alternatives": 10**400}, "Invalid request: alternatives parameter must be <= 15"),
    ({"q": "x" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
    ({"q": ["sun", "x" * 5001]}, "Invalid request: request (5001) exceeds text limit (5000)"),
    ({"q": ["sun"] * 65}, "Invalid request: request (65) exceeds text limit (64)"),
    (
        {"source": "pb"},
        "Spanish (es) is not available as a target language from Portuguese (Brazil) (pt-BR)",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_wrong_field_is_refused_in_libretranslates_words(
    client: httpx.Client, change: dict[str, Any], message: str
) -> None:
    response = client.post("/translate", json={**FIELDS, **change})
    assert response.status_code == 400
    assert response.json() == {"error": message}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)
NEEDED = {
    "q": st.text(max_size=30) | st.lists(st.text(max_size=9), max_size=3) | VALUES,
    "source": st.sampled_from(["auto", "en", "es"]) | VALUES,
    "target": st.sampled_from(["es", "pb", "de"]) | VALUES,
}
OPTIONAL = {
    "format": st.sampled_from(["text", "html", None]) | VALUES,
    "alternatives": st.integers(0, 5) | VALUES,
}


@given(st.fixed_dictionaries(NEEDED, optional=OPTIONAL), st.booleans())
@settings(max_examples=200)
def test_every_request_is_translated_or_refused_with_a_reason(
    client: httpx.Client, fields: dict[str, Any], is_json: bool
) -> None:
    as_text = {name: str(value) for name, value in fields.items()}
    response = client.post("/translate", **{"json": fields} if is_json else {"data": as_text})
    answer = response.json()
    if response.status_code == 200:
        assert isinstance(answer["translatedText"], type(fields["q"]) if is_json else str)
        assert "detectedLanguage" not in answer or str(fields["source"]).lower() == "auto"
    else:
        assert response.status_code == 400
        assert answer.keys() == {"error"}
        assert isinstance(answer["error"], str)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("how", ["json", "data", "params"])
def test_a_missing_field_is_named(client: httpx.Client, name: str, how: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != name}
    response = client.post("/translate", **{how: fields})  # type: ignore[arg-type]
    assert response.status_code == 400
    assert response.json() == {"error": f"Invalid request: missing {name} parameter"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value at character 1"),
        (b'{"q": }', "Expecting value at character 7"),
        (b"[]", "an object is wanted"),
        (b'{"q": "\xff"}', "byte 8 is not UTF-8"),
        (b'{"q": "\\ud800"}', "a string has half a surrogate pair"),
        (b'{"q": "sun", "q": "moon"}', "the key 'q' occurs twice"),
        (b'{"a);b": 1, "a);b": 2}', "the key 'a);b' occurs twice"),
        (b'{"alternatives": NaN}', "NaN is no JSON"),
        (b"[" * 100_000, "it is nested too deep"),
    ],
)
@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_what_is_not_json_is_refused(client: httpx.Client, path: str, body: bytes, reason: str) -> None:
    for kind in ("application/json", "application/problem+json; charset=utf-8"):
        response = client.post(path, content=body, headers={"Content-Type": kind})
        assert response.status_code == 400
        assert response.json() == {"error": f"Invalid JSON format: {reason}"}


def test_a_broken_form_is_refused(client: httpx.Client) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    response = client.post("/translate", content=b"--y\r\n\r\n", headers=kind)
    assert response.status_code == 400
    assert response.json().keys() == {"error"}


def test_bytes_of_a_form_need_not_be_escaped(client: httpx.Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for content, kind, text in (
        ("q=\u2603".encode(), form, "\u2603"),  # a symbol, which is its own translation
        (b"q=%E2%98%83", form, "\u2603"),
        (b"q=%A9", {"Content-Type": f"{form['Content-Type']}; charset=iso-8859-1"}, "\xa9"),
    ):
        response = client.post("/translate?source=en&target=es", content=content, headers=kind)
        assert response.json() == {"translatedText": text}
    for content in (b"q=\xff", b"q=%FF", b"q=a&" * 1_001):
        assert client.post("/translate", content=content, headers=form).status_code == 400


@pytest.mark.parametrize(
    "charset", ["undefined", "utf-7", "unicode_escape", "idna", "no-such", '"a\\0b"', '""']
)
def test_a_form_in_an_unusual_encoding_is_refused(client: httpx.Client, charset: str) -> None:
    kind = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    part = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nsun\xff\r\n--x--\r\n'
    response = client.post("/translate", content=part, headers=kind)
    assert response.status_code == 415
    assert response.json() == {"error": "The form is in an encoding that is not supported; send UTF-8."}


def test_the_languages_of_a_text_are_detected(client: httpx.Client) -> None:
    for fields in ({"json": {"q": SPANISH}}, {"data": {"q": SPANISH}}, {"json": {"q": [SPANISH, SPANISH]}}):
        found = client.post("/detect", **fields).json()
        assert found[0]["language"] == "es"
        assert 90 < found[0]["confidence"] <= 100
    both = client.post("/detect", json={"q": "sol"}).json()
    assert [each["confidence"] for each in both] == sorted((e["confidence"] for e in both), reverse=True)
    nothing = client.post("/detect", json={"q": "Зимой собаки бегут по холодному пляжу с мячом"}).json()
    assert [each["confidence"] for each in nothing] == [0.0]
    missing = client.post("/detect")
    assert (missing.status_code, missing.json()) == (400, {"error": "Invalid request: missing q parameter"})
    assert client.post("/detect", json={"q": "sun " * 100_000}).status_code == 200


def test_the_settings_of_the_page_say_what_is_on(client: httpx.Client, serve: Serve) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 5000
    assert settings["keyRequired"] is settings["apiKeys"] is settings["filesTranslation"] is False
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "es", "name": "Spanish"},
    }
    with serve(replace(SETTINGS, token="key", most_characters=70)) as guarded:
        settings = guarded.get("/frontend/settings").json()
        assert (settings["charLimit"], settings["keyRequired"], settings["apiKeys"]) == (70, True, True)


def test_health_and_the_specification_are_answered(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    specification = client.get("/spec").json()
    assert specification["swagger"] == "2.0"
    statuses = {
        (method, path): client.request(method, path, params=FIELDS).status_code
        for path, methods in specification["paths"].items()
        for method in methods
    }
    assert statuses == {
        ("post", "/translate"): 200,
        ("post", "/translate_file"): 403,
        ("post", "/detect"): 200,
        ("get", "/languages"): 200,
        ("get", "/frontend/settings"): 200,
        ("get", "/health"): 200,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/suggest", 403, "Suggestions are disabled on this server."),
        ("POST", "/translate_file", 403, "Files translation are disabled on this server."),
        ("GET", "/download_file/a.txt", 400, "Files translation are disabled on this server."),
    ],
)
def test_features_that_are_off_say_so(
    client: httpx.Client, method: str, path: str, status: int, message: str
) -> None:
    response = client.request(method, path)
    assert (response.status_code, response.json()) == (status, {"error": message})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/translate"),
        ("GET", "/detect"),
        ("POST", "/languages"),
        ("POST", "/spec"),
        ("POST", "/health"),
    ],
)
def test_other_methods_are_not_allowed(client: httpx.Client, method: str, path: str) -> None:
    assert client.request(method, path).status_code == 405


def test_requests_beyond_the_queue_are_told_to_slow_down(serve: Serve) -> None:
    fields = {**FIELDS, "q": " ".join(["sun moon"] * 500)}
    with serve(replace(SETTINGS, queue_tokens=1)) as client, ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda _: client.post("/translate", data=fields), range(8)))
    assert {response.status_code for response in responses} == {200, 429}
    for response in responses:
        if response.status_code == 429:
            assert response.json()["error"].startswith("Slowdown: the server is busy; try again in ")
            assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("text_format", ["text", "html"])
def test_a_request_past_its_deadline_is_refused(serve: Serve, text_format: str) -> None:
    with serve(replace(SETTINGS, request_seconds=1e-4)) as client:
        response = client.post("/translate", json={**FIELDS, "format": text_format})
    assert response.status_code == 504
    assert response.json() == {"error": "not done within 0.0001 s; send less text"}


@pytest.mark.parametrize(
    ("refusal", "status", "message"),
    [
        (Refusal(401, "no_token", "x"), 400, "Please contact the server operator to get an API key"),
        (Refusal(401, "wrong_token", "x"), 403, "Invalid API key"),
        (Refusal(422, "unicode", "x"), 400, "x"),
        (Refusal(404, "no_direction", "x"), 400, "x"),
        (Refusal(413, "too_large", "x"), 413, "x"),
        (Refusal(503, "draining", "x"), 503, "x"),
    ],
)
def test_refusals_of_others_are_in_libretranslates_words(refusal: Refusal, status: int, message: str) -> None:
    response = libretranslate.error_response(refusal)
    assert (response.status_code, json.loads(bytes(response.body))) == (status, {"error": message})
