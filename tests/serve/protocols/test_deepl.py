"""DeepL's protocol, with its own client over real connections."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import deepl
import httpx
import pytest
from fastapi import FastAPI
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, SETTINGS, StartServer, running

from allyouneed.serve.directions import Direction
from allyouneed.serve.models import ServedModel
from allyouneed.serve.process import serving
from allyouneed.serve.protocols import deepl as protocol
from allyouneed.serve.protocols.deepl import Languages
from allyouneed.serve.protocols.protocol import ErrorForms, answer_errors
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_TEXTS

Offline = Callable[[str], str]
ENGLISH = "two dogs are running on the beach with a red ball"
GERMAN = "zwei Hunde laufen mit einem roten Ball über den Strand"
FIELDS: dict[str, Any] = {"text": ["sun moon"], "source_lang": "EN", "target_lang": "DE"}
MOST_CHARACTERS = 500


@pytest.fixture(scope="module")
def served(models: list[ServedModel]) -> list[ServedModel]:
    """From English to German and back, and from German to French."""
    return [models[0], models[1], replace(models[0], name="deen", source="de", target="en")]


@pytest.fixture(scope="module")
def address(served: list[ServedModel]) -> Iterator[str]:
    settings = replace(SETTINGS, most_characters=MOST_CHARACTERS)
    with serving(served, DECODING, settings) as service:
        app = FastAPI()
        app.include_router(protocol.routes(service))
        answer_errors(app, ErrorForms([protocol.PROTOCOL]))
        with running(app) as address:
            yield address


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[deepl.DeepLClient]:
    with closing(deepl.DeepLClient("any-key", server_url=address)) as client:
        yield client


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{address}/v2", timeout=PATIENCE_SECONDS) as http:
        yield http


@pytest.fixture(scope="module")
def offline(models: list[ServedModel]) -> Offline:
    """Translates lines without a server."""
    translator: Any = models[0].loaded
    return lambda text: "\n".join(
        translator.translate([line])[0].text if line else "" for line in text.split("\n")
    )


def translated(http: httpx.Client, **fields: Any) -> str:
    [found] = http.post("/translate", json=FIELDS | fields).json()["translations"]
    assert found["detected_source_language"] == "EN"
    return str(found["text"])


def test_the_client_translates_a_text_or_several(client: deepl.DeepLClient, offline: Offline) -> None:
    found = client.translate_text("sun moon", source_lang="EN", target_lang="DE")
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.detected_source_lang) == (offline("sun moon"), "EN")
    assert found.billed_characters == 8
    texts = ["sun", "", "moon\nstar", "bear"]
    several = client.translate_text(texts, source_lang="en", target_lang="de")
    assert isinstance(several, list)
    assert [each.text for each in several] == [offline(text) if text else "" for text in texts]


def test_the_source_language_of_each_text_is_detected(client: deepl.DeepLClient, offline: Offline) -> None:
    found = client.translate_text([GERMAN, ENGLISH, GERMAN], target_lang="EN-US")
    assert isinstance(found, list)
    assert [each.detected_source_lang for each in found] == ["DE", "EN", "DE"]
    assert [each.text for each in found] == [offline(GERMAN), ENGLISH, offline(GERMAN)]


def test_a_text_in_a_language_that_is_only_translated_to_stays_as_it_is(client: deepl.DeepLClient) -> None:
    french = "Deux chiens courent sur la plage avec un ballon rouge."
    for source in (None, "FR"):
        found = client.translate_text(french, source_lang=source, target_lang="FR-CA")
        assert isinstance(found, deepl.TextResult)
        assert (found.text, found.detected_source_lang) == (french, "FR")


def test_the_client_may_send_all_its_options(client: deepl.DeepLClient, offline: Offline) -> None:
    found = client.translate_text(
        "sun moon",
        source_lang="EN",
        target_lang="DE",
        context="Weather",
        split_sentences=deepl.SplitSentences.OFF,
        preserve_formatting=True,
        formality=deepl.Formality.PREFER_LESS,
        model_type="prefer_quality_optimized",
        outline_detection=False,
        splitting_tags=["p"],
        non_splitting_tags=["b"],
    )
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.model_type_used) == (offline("sun moon"), "quality_optimized")


def test_the_client_lists_languages(client: deepl.DeepLClient) -> None:
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [(each.code.upper(), each.name) for each in sources] == [("DE", "German"), ("EN", "English")]
    assert [(each.code.upper(), each.name, each.supports_formality) for each in targets] == [
        ("DE", "German", False),
        ("EN-GB", "English (British)", False),
        ("EN-US", "English (American)", False),
        ("FR", "French", False),
    ]


def test_every_listed_target_is_translated_to(client: deepl.DeepLClient) -> None:
    for language in client.get_target_languages():
        client.translate_text("sun", source_lang="DE", target_lang=language.code)


def test_usage_counts_characters(client: deepl.DeepLClient, http: httpx.Client) -> None:
    before = client.get_usage().character.count
    assert before is not None
    client.translate_text(["sun", "moon"], source_lang="EN", target_lang="DE")
    usage = client.get_usage()
    assert usage.character.count == before + 7
    assert not usage.any_limit_reached
    assert http.post("/usage").json() == {"character_count": before + 7, "character_limit": 10**12}


@pytest.mark.parametrize("how", ["json", "data", "params"])
def test_fields_may_be_json_a_form_or_the_query(http: httpx.Client, offline: Offline, how: str) -> None:
    fields = {**FIELDS, "text": ["sun", "moon star"]}
    response = http.post("/translate", **{how: fields})  # type: ignore[arg-type]
    assert [each["text"] for each in response.json()["translations"]] == [
        offline("sun"),
        offline("moon star"),
    ]
    assert [set(each) for each in response.json()["translations"]] == [
        {"detected_source_language", "text"}
    ] * 2


def test_fields_may_be_parts_of_a_multipart_form(http: httpx.Client, offline: Offline) -> None:
    parts = {name: (None, value) for name, value in {**FIELDS, "text": "sun"}.items()}
    [found] = http.post("/translate", files=parts).json()["translations"]
    assert found["text"] == offline("sun")
    answer = http.post("/translate", files={**parts, "text": ("text.txt", b"sun")})
    assert (answer.status_code, answer.json()) == (400, {"message": "Parameter 'text' not specified."})


def test_line_breaks_separate_sentences_unless_the_client_says_otherwise(
    http: httpx.Client, offline: Offline
) -> None:
    text = "sun\nmoon \r\n star\n\nbear"
    assert translated(http, text=[text], split_sentences="nonewlines") == offline("sun moon star\n\nbear")
    for value in ("0", "1"):
        assert translated(http, text=["sun\nmoon"], split_sentences=value) == offline("sun\nmoon")


def without_tags(document: str) -> str:
    return re.sub(r"<[^>]*>", "", document)


@pytest.mark.parametrize("handling", ["html", "xml"])
def test_a_sentence_with_tags_is_translated_as_one(
    http: httpx.Client, offline: Offline, handling: str
) -> None:
    text = "<x>sun <b>moon</b> <i id='1'>star</i> tree</x>"
    found = translated(http, text=[text], tag_handling=handling)
    assert without_tags(found) == offline("sun moon star tree")
    assert sorted(re.findall("<.*?>", found)) == sorted(re.findall("<.*?>", text))


@pytest.mark.parametrize("ignored", ["b, i", ["b"]])
def test_tags_to_ignore_keep_their_text(http: httpx.Client, offline: Offline, ignored: Any) -> None:
    for handling in ("html", "xml"):
        found = translated(http, text=["<p><b>moon</b></p>"], tag_handling=handling, ignore_tags=ignored)
        assert found == "<p><b>moon</b></p>"
        found = translated(http, text=["<p>sun <b>moon</b></p>"], tag_handling=handling, ignore_tags=ignored)
        assert found.count("<b>moon</b>") == 1


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ["sun moon", "star", "tree"]),
        ({"outline_detection": "0"}, ["sun moon star tree"]),
        ({"outline_detection": False, "splitting_tags": "a, p"}, ["sun", "moon", "star", "tree"]),
        ({"splitting_tags": ["a"]}, ["sun", "moon", "star", "tree"]),
        ({"non_splitting_tags": "p,q"}, ["sun moon star tree"]),
    ],
)
def test_tags_of_xml_split_sentences_as_the_client_says(
    http: httpx.Client, offline: Offline, fields: dict[str, Any], parts: list[str]
) -> None:
    text = "<d><p>sun <a>moon</a></p> <p>star</p> <q>tree</q></d>"
    found = translated(http, text=[text], tag_handling="xml", **fields)
    assert without_tags(found).split() == " ".join(map(offline, parts)).split()


@pytest.mark.parametrize("field", ["splitting_tags", "non_splitting_tags"])
def test_names_of_tags_that_are_none_are_refused(http: httpx.Client, field: str) -> None:
    answer = http.post("/translate", json=FIELDS | {"text": ["sun"], "tag_handling": "xml", field: 3})
    assert (answer.status_code, answer.json()) == (400, {"message": f"Value for '{field}' not supported."})


NOT_XML = (
    "Tag handling parsing failed, please check input. Text 2, {}; "
    "write & and < as &amp; and &lt; and close all tags, or set 'tag_handling' to 'html'."
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("sun <3 moon", "line 1, column 5: not well-formed (invalid token)"),
        ("sun & moon", "line 1, column 5: not well-formed (invalid token)"),
        ("<b>sun</i>", "line 1, column 1: <b> is not closed"),
        ("sun\n <b>sun", "line 2, column 2: <b> is not closed"),
    ],
)
def test_what_is_not_well_formed_xml_is_refused_and_as_html_keeps_its_signs(
    http: httpx.Client, client: deepl.DeepLClient, text: str, fault: str
) -> None:
    fields = FIELDS | {"text": ["<p>sun</p>", text]}
    answer = http.post("/translate", json=fields | {"tag_handling": "xml"})
    assert (answer.status_code, answer.json()) == (400, {"message": NOT_XML.format(fault)})
    with pytest.raises(deepl.DeepLException, match="Tag handling parsing failed, please check input"):
        client.translate_text(text, source_lang="EN", target_lang="DE", tag_handling="xml")
    assert http.post("/translate", json=fields | {"tag_handling": "html"}).status_code == 200
    assert http.post("/translate", json=fields).status_code == 200


def test_a_heart_is_kept_between_translations(http: httpx.Client, offline: Offline) -> None:
    for handling, heart in (("html", "<3"), ("html", "&lt;3"), ("xml", "&lt;3")):
        found = translated(http, text=[f"<p>sun {heart} moon</p>"], tag_handling=handling)
        assert found.count(heart) == 1
        assert without_tags(found.replace(heart, "")).split() == offline("sun moon").split()


def test_a_document_may_have_more_texts_than_the_service_takes(http: httpx.Client, offline: Offline) -> None:
    text = "<p>".join(["sun"] * (MOST_TEXTS + 1))
    assert translated(http, text=[text], tag_handling="html") == text.replace("sun", offline("sun"))


def test_unknown_fields_and_empty_values_are_ignored(http: httpx.Client, offline: Offline) -> None:
    assert translated(http, beams=3, formality=None, glossary_id="", context=None) == offline("sun moon")


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"text": None}, 400, "Parameter 'text' not specified."),
        ({"text": []}, 400, "Parameter 'text' not specified."),
        ({"text": [3]}, 400, "Value for 'text' not supported."),
        ({"text": {"a": "b"}}, 400, "Value for 'text' not supported."),
        ({"target_lang": None}, 400, "Value for 'target_lang' not supported."),
        ({"target_lang": "XX"}, 400, "Value for 'target_lang' not supported."),
        ({"target_lang": ["DE"]}, 400, "Value for 'target_lang' not supported."),
        ({"source_lang": "auto"}, 400, "Value for 'source_lang' not supported."),
        ({"source_lang": "FR"}, 400, "Value for 'source_lang' not supported."),
        ({"formality": "more"}, 400, "'formality' is not supported for given 'target_lang'."),
        ({"formality": "rude"}, 400, "Value for 'formality' not supported."),
        ({"split_sentences": "2"}, 400, "Value for 'split_sentences' not supported."),
        ({"preserve_formatting": "2"}, 400, "Value for 'preserve_formatting' not supported."),
        ({"tag_handling": "rtf"}, 400, "Value for 'tag_handling' not supported."),
        ({"tag_handling": "xml", "ignore_tags": 3}, 400, "Value for 'ignore_tags' not supported."),
        ({"model_type": []}, 400, "Value for 'model_type' not supported."),
        ({"text": ["a"] * (MOST_TEXTS + 1)}, 413, f"Request size exceeds the limit of {MOST_TEXTS} texts."),
        (
            {"text": ["a" * (MOST_CHARACTERS + 1)]},
            413,
            f"Request size exceeds the limit of {MOST_CHARACTERS} characters per text.",
        ),
        (
            {"glossary_id": "1"},
            400,
            "'glossary_id' is not supported: this server stores no glossaries.",
        ),
    ],
)
def test_wrong_fields_are_refused_as_by_deepl(
    http: httpx.Client, fields: dict[str, Any], status: int, message: str
) -> None:
    response = http.post("/translate", json=FIELDS | fields)
    assert (response.status_code, response.json()) == (status, {"message": message})


def test_a_direction_without_a_model_is_named(models: list[ServedModel]) -> None:
    served = [models[0], replace(models[1], source="fr", target="en")]
    with serving(served, DECODING, SETTINGS) as service:
        directions = [each for each in service.directions if len(each.models) == 1]
        languages = Languages(service.languages, directions)
        assert languages.direction("EN-GB", "de") == directions[0]
        assert languages.direction("DE", "de-AT").models == ()
        with pytest.raises(Refusal, match=r"^Unsupported language pair: 'FR' => 'DE'\.$"):
            languages.direction("fr", "de")


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'{"text": "a", "text": "b"}', b'{"text": NaN}'])
def test_what_is_no_json_object_is_refused(http: httpx.Client, body: bytes) -> None:
    response = http.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    message = response.json()["message"]
    assert message.startswith("Bad request. Reason: the body is not a JSON object")
    assert ("byte 1 is not UTF-8" in message) == (body == b"\xff")


def test_a_damaged_form_is_refused(http: httpx.Client) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=a"}
    response = http.post("/translate", content=b"--b\r\n", headers=kind)
    assert response.status_code == 400
    assert response.json().keys() == {"message"}


def test_what_is_not_served_is_answered_in_deepls_form(client: deepl.DeepLClient, http: httpx.Client) -> None:
    assert client.list_glossaries() == []
    assert client.get_glossary_languages() == []
    with pytest.raises(deepl.DeepLException, match="this server has no rephrasing"):
        client.rephrase_text("sun", target_lang="EN-US")
    for method, path in (("POST", "/document"), ("GET", "/translate"), ("DELETE", "/glossaries/1")):
        response = http.request(method, path)
        assert response.status_code == 404
        assert response.json().keys() == {"message"}
    assert http.get("/languages?type=both").status_code == 400


@pytest.mark.parametrize(("status", "expected"), [(401, 403), (422, 400), (413, 413), (429, 429), (503, 503)])
def test_refusals_have_deepls_form(status: int, expected: int) -> None:
    response = protocol.error_response(Refusal(status, "label", "What is wrong.", {"Retry-After": "2"}))
    assert response.status_code == expected
    assert json.loads(bytes(response.body)) == {"message": "What is wrong."}
    assert response.headers["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("code", "served", "expected"),
    [
        ("EN-GB", ["de", "en"], "en"),
        ("en-us", ["en_GB", "en"], "en"),
        ("EN-GB", ["en", "en_GB"], "en_GB"),
        ("EN-US", ["en_GB"], "en_GB"),
        ("DE-US", ["de"], "de"),
        ("PT-BR", ["pt"], "pt"),
        ("PT", ["pt_BR"], "pt_BR"),
        ("PT-PT", ["pt_BR"], "pt_BR"),
        ("ZH-HANS", ["zh"], "zh"),
        ("ZH-HANT", ["zh"], None),
        ("ZH-HANT", ["zh", "zh_TW"], "zh_TW"),
        ("NB", ["no"], "no"),
        ("", ["de"], None),
    ],
)
def test_variants_are_translated_to_by_a_model_of_the_language(
    code: str, served: list[str], expected: str | None
) -> None:
    names = dict.fromkeys(["xx", *served], "Name")
    languages = Languages(names, [Direction("xx", each, ("model",)) for each in served])
    if expected is None:
        with pytest.raises(Refusal, match="Value for 'target_lang' not supported"):
            languages.target(code)
    else:
        assert languages.target(code) == expected


def test_variants_are_listed_as_by_deepl() -> None:
    codes = ["en", "nor", "pt_BR", "zh", "zh-Hant", "de"]
    names = {code: f"Name of {code}" for code in codes} | {"en": "English", "pt_BR": "Portuguese (Brazil)"}
    languages = Languages(names, [Direction(code, code, ("model",)) for code in codes])
    assert [each["language"] for each in languages.targets()] == [
        *("DE", "EN-GB", "EN-US", "NB", "PT-BR", "ZH", "ZH-HANS", "ZH-HANT"),
    ]
    assert [each["language"] for each in languages.sources()] == ["DE", "EN", "NB", "PT", "ZH"]
    assert {"language": "PT", "name": "Portuguese"} in languages.sources()


def test_the_clients_key_is_the_servers_token(start_server: StartServer, offline: Offline) -> None:
    address = start_server(token="secret-token")
    with closing(deepl.DeepLClient("secret-token", server_url=address)) as client:
        found = client.translate_text("sun", source_lang="EN", target_lang="DE")
        assert isinstance(found, deepl.TextResult)
        assert found.text == offline("sun")
    with (
        closing(deepl.DeepLClient("another", server_url=address)) as client,
        pytest.raises(deepl.AuthorizationException, match="the token is wrong"),
    ):
        client.translate_text("sun", source_lang="EN", target_lang="DE")
    assert httpx.get(f"{address}/v2/usage").status_code == 403


def test_a_request_without_time_left_is_refused_in_deepls_form(start_server: StartServer) -> None:
    response = httpx.post(f"{start_server(request_seconds=0.0)}/v2/translate", json=FIELDS)
    assert response.status_code == 504
    assert response.json().keys() == {"message"}
