"""A model that translates between any two languages is served in all directions, by any code of each."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, SETTINGS, running

from allyouneed.errors import UsageError
from allyouneed.language_codes import closest_code, short_codes
from allyouneed.runs.loading import load_translator
from allyouneed.serve.application import create_app
from allyouneed.serve.directions import Direction, between, closest
from allyouneed.serve.models import ModelSource, ServedModel, load_models, newer
from allyouneed.serve.process import serving

NLLB = [
    "eng_Latn",
    "deu_Latn",
    "zho_Hans",
    "zho_Hant",
    "kas_Arab",
    "kas_Deva",
    "pes_Arab",
    "prs_Arab",
    "ace_Latn",
]
MANY = Direction("", "", ("nllb",), tuple(short_codes(NLLB)))
BUILT = Direction("en", "de", ("ende",))


def test_the_shortest_code_of_each_language_finds_it() -> None:
    short = short_codes(NLLB)
    assert short == ["en", "de", "zh", "zh-Hant", "ks", "ks-Deva", "fa", "prs_Arab", "ace"]
    assert [closest_code(code, NLLB) for code in short] == NLLB


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("en", "zh", ("en", "zh")),
        ("ENG", "deu_Latn", ("en", "de")),
        ("de-AT", "zh-TW", ("de", "zh-Hant")),
        ("de", "zh_Hans", ("de", "zh")),
        ("en", "tlh", None),
        ("tlh", "en", None),
    ],
)
def test_codes_of_clients_find_the_languages(
    source: str, target: str, expected: tuple[str, str] | None
) -> None:
    found = between([MANY], source, target)
    assert (None if found is None else (found.source, found.target)) == expected


def test_a_text_in_its_target_language_needs_no_model() -> None:
    found = between([MANY], "en", "eng_Latn")
    assert found == Direction("en", "en", ())


def test_a_model_of_one_direction_comes_first() -> None:
    assert closest([BUILT, MANY], "en", "de")[0] == BUILT
    assert closest([BUILT, MANY], "de", "en") == [Direction("de", "en", ("nllb",))]


def test_what_is_not_named_may_be_any_language_but_not_all_pairs_are_listed() -> None:
    assert {each.source for each in closest([MANY], None, "de")} == {*MANY.languages} - {"de"}
    assert len(closest([MANY], None, None)) == 2 * (len(NLLB) - 1)


@pytest.fixture(scope="module")
def models(told_both_model: Path) -> list[ServedModel]:
    return load_models([ModelSource(told_both_model)], "cpu")


def test_only_the_languages_that_are_wanted_are_served(told_both_model: Path) -> None:
    def served(*codes: str, direction: tuple[str, str] | None = None) -> tuple[str, ...]:
        [model] = load_models([ModelSource(told_both_model, direction, languages=codes)], "cpu")
        return model.languages

    assert served("fra_Latn", "de") == ("de", "fr")
    with pytest.raises(UsageError, match="--languages xx: is no language of"):
        served("de", "xx", "fr")
    with pytest.raises(UsageError, match="--languages de: is one language; name two or more"):
        served("de", "deu_Latn")
    with pytest.raises(UsageError, match="no model is one of any two languages"):
        served("de", "fr", direction=("de", "fr"))


@pytest.fixture(scope="module")
def client(models: list[ServedModel]) -> Iterator[httpx.Client]:
    with (
        serving(models, DECODING, SETTINGS) as service,
        running(create_app(service, SETTINGS)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client,
    ):
        yield client


def test_texts_are_translated_in_the_direction_that_is_asked_for(
    client: httpx.Client, told_both_model: Path, models: list[ServedModel]
) -> None:
    text = "the moon sees a star"
    translator = load_translator(told_both_model, precision=models[0].precision)
    for source, target in (("de", "fr"), ("fra_Latn", "DE")):
        expected = translator.translate([text], source=source, to=target)[0].text
        found = client.post("/translate", json={"q": text, "source": source, "target": target}).json()
        assert found["translatedText"] == expected
        own = client.post("/api/translate", json={"text": text, "source": source, "target": target}).json()
        assert own["results"][0]["translations"][0]["text"] == expected


def test_a_glossary_may_be_of_any_two_of_its_languages(models: list[ServedModel], tmp_path: Path) -> None:
    settings = replace(SETTINGS, glossaries=tmp_path)
    fields = {"name": "terms", "entries": "moon\tMondschein", "entries_format": "tsv"}
    with (
        serving(models, DECODING, settings) as service,
        running(create_app(service, settings)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client,
    ):
        made = client.post("/v2/glossaries", json={**fields, "source_lang": "fr", "target_lang": "de"})
        assert made.status_code == 201, made.text
        asked = {"text": ["the moon"], "source_lang": "FR", "target_lang": "DE"}
        found = client.post("/v2/translate", json={**asked, "glossary_id": made.json()["glossary_id"]})
        assert "Mondschein" in found.json()["translations"][0]["text"]
        for wrong in (("fr", "fr"), ("fr", "es")):
            pair = dict(zip(("source_lang", "target_lang"), wrong, strict=True))
            assert client.post("/v2/glossaries", json=fields | pair).status_code == 400
        assert client.get("/v2/glossary-language-pairs").json() == {"supported_languages": []}


def test_the_protocols_list_its_languages_once(client: httpx.Client) -> None:
    assert [(each["code"], each["targets"]) for each in client.get("/languages").json()] == [
        ("de", ["de", "fr"]),
        ("fr", ["de", "fr"]),
    ]
    listed = client.get("/api/models").json()
    assert listed["directions"] == []
    assert listed["models"][0]["languages"] == ["de", "fr"]
    assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["both"]
    assert [each["language"] for each in client.get("/v2/languages").json()] == ["DE", "FR"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"source": "de", "target": "es"}, 404),
        ({"source": "de", "target": "es", "model": "both"}, 422),
        ({"target": "fr"}, 200),
        ({}, 422),
    ],
    ids=str,
)
def test_other_requests(client: httpx.Client, fields: dict[str, str], status: int) -> None:
    found = client.post("/api/translate", json={"text": "the sun", **fields})
    assert found.status_code == status, found.text


@pytest.mark.parametrize(
    ("model", "prompt", "status"),
    [
        ("de-fr", "Be brief.", 200),
        ("both", "Translate from German to French.", 200),
        ("both", "Translate to Spanish.", 404),
    ],
)
def test_a_chat_names_the_languages(model: str, prompt: str, status: int, client: httpx.Client) -> None:
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": "the sun"}]
    found = client.post("/v1/chat/completions", json={"model": model, "messages": messages})
    assert found.status_code == status, found.text


def test_a_named_direction_is_served_alone(told_both_model: Path) -> None:
    [found] = load_models([ModelSource(told_both_model, ("de", "fr"))], "cpu")
    assert (found.source, found.target, found.languages) == ("de", "fr", ())


def test_it_is_not_loaded_again_unless_its_files_change(models: list[ServedModel]) -> None:
    assert newer(models[0], "cpu") is None
