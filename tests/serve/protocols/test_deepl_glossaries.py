"""Glossaries of DeepL's protocol, with its own client: stored in files, bounded, and kept in translations."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import deepl
import httpx
import pytest
from tests.serve.conftest import StartServer

from allyouneed.errors import DataError
from allyouneed.serve import glossaries
from allyouneed.serve.glossaries import GlossaryFolder

ENTRIES = {"moon": "Zebra", "sun": "Yak"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "glossaries"


@pytest.fixture
def address(start_server: StartServer, folder: Path) -> str:
    return start_server(glossaries=folder, keep=True)


@pytest.fixture
def client(address: str) -> Iterator[deepl.DeepLClient]:
    with closing(deepl.DeepLClient("any-key", server_url=address)) as client:
        yield client


def test_the_client_stores_lists_reads_uses_and_deletes_a_glossary(
    client: deepl.DeepLClient, folder: Path
) -> None:
    made = client.create_glossary("animals", "EN", "DE", ENTRIES)
    assert (made.name, made.source_lang, made.target_lang, made.entry_count) == ("animals", "EN", "DE", 2)
    assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert client.get_glossary_entries(made) == ENTRIES
    assert [file.name for file in folder.iterdir()] == [f"{made.glossary_id}.json"]
    found = client.translate_text("sun moon {x}", source_lang="EN", target_lang="DE", glossary=made)
    assert isinstance(found, deepl.TextResult)
    for word in ("Zebra", "Yak", "{x}"):
        assert len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", found.text)) >= 1
    client.delete_glossary(made)
    assert client.list_glossaries() == []
    assert list(folder.iterdir()) == []
    with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_only_directions_of_one_model_have_glossaries(client: deepl.DeepLClient) -> None:
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert pairs == {("en", "de"), ("de", "fr")}
    with pytest.raises(deepl.DeepLException, match="Unsupported glossary"):
        client.create_glossary("n", "EN", "FR", ENTRIES)
    made = client.create_glossary("n", "DE", "FR", ENTRIES)
    with pytest.raises(deepl.DeepLException, match="not of this source and target"):
        client.translate_text("sun", source_lang="EN", target_lang="DE", glossary=made.glossary_id)


def test_glossaries_are_there_after_a_restart(folder: Path) -> None:
    made = GlossaryFolder(folder).create("animals", ("en", "de"), [*ENTRIES.items()])
    again = GlossaryFolder(folder)
    assert again.all() == [made]
    assert again.entries(made.glossary_id) == [*ENTRIES.items()]
    assert [term.forms for term in again.glossary(made.glossary_id).terms("a moon")] == [("Zebra",)]


def test_a_damaged_file_is_named_and_other_files_are_left_alone(folder: Path) -> None:
    made = GlossaryFolder(folder).create("animals", ("en", "de"), [*ENTRIES.items()])
    (folder / "README").write_bytes(b"mine")
    file = folder / f"{made.glossary_id}.json"
    for content in (b"", b"[]", b"\xff", json.dumps({"entries": [1]}).encode()):
        file.write_bytes(content)
        with pytest.raises(DataError, match=f"{made.glossary_id}.json: is no glossary"):
            GlossaryFolder(folder)


def test_the_number_of_glossaries_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossaries, "MOST_GLOSSARIES", 2)
    stored = GlossaryFolder(folder)
    for _ in range(2):
        stored.create("n", ("en", "de"), [("a", "b")])
    with pytest.raises(DataError, match="more than 2 glossaries; delete some"):
        stored.create("n", ("en", "de"), [("a", "b")])
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entries": ""}, "'entries' not specified"),
        ({"entries": "a b"}, "entry 1 is not a source and a target"),
        ({"entries": "a\tb\na\tc"}, "'a' has another translation in line 1"),
        ({"entries": "a\t"}, "is empty"),
        ({"entries_format": "xml"}, "'entries_format' not supported"),
        ({"name": 5}, "'name' not specified"),
        ({"name": "n" * 2_000}, "longer than 1,024"),
        ({"target_lang": "XX"}, "Unsupported glossary"),
    ],
)
def test_wrong_glossaries_are_refused(
    address: str, folder: Path, changes: dict[str, object], message: str
) -> None:
    fields = {
        "name": "n",
        "source_lang": "en",
        "target_lang": "de",
        "entries": "a\tb",
        "entries_format": "tsv",
    }
    answer = httpx.post(f"{address}/v2/glossaries", json=fields | changes)
    assert (answer.status_code, message in answer.json()["message"]) == (400, True)
    assert list(folder.iterdir()) == []


def test_csv_is_read_and_ids_are_no_paths(address: str) -> None:
    fields = {"name": "n", "source_lang": "en", "target_lang": "de", "entries_format": "csv"}
    made = httpx.post(f"{address}/v2/glossaries", data=fields | {"entries": '"a, b",c,en,de\nd,e\n'}).json()
    entries = httpx.get(f"{address}/v2/glossaries/{made['glossary_id']}/entries")
    assert entries.text == "a, b\tc\nd\te"
    bars = httpx.post(f"{address}/v2/glossaries", data=fields | {"entries": "sun,A||B\n"}).json()
    body = {"text": ["sun"], "source_lang": "EN", "target_lang": "DE", "glossary_id": bars["glossary_id"]}
    found = httpx.post(f"{address}/v2/translate", json=body).json()
    assert "A||B" in found["translations"][0]["text"]
    for glossary_id in ("..%2f..%2fetc%2fpasswd", "x", made["glossary_id"].upper()):
        assert httpx.get(f"{address}/v2/glossaries/{glossary_id}/entries").status_code == 404
        body = {"text": ["sun"], "source_lang": "EN", "target_lang": "DE", "glossary_id": glossary_id}
        assert httpx.post(f"{address}/v2/translate", json=body).status_code == 404
    body |= {"glossary_id": made["glossary_id"]}
    del body["source_lang"]
    assert "source_lang" in httpx.post(f"{address}/v2/translate", json=body).json()["message"]


def test_a_server_without_a_folder_stores_none(start_server: StartServer) -> None:
    address = start_server()
    assert httpx.get(f"{address}/v2/glossaries").json() == {"glossaries": []}
    answer = httpx.post(f"{address}/v2/glossaries", json={"name": "n"})
    assert (answer.status_code, "--glossaries" in answer.json()["message"]) == (404, True)
    assert httpx.get(f"{address}/v2/glossary-language-pairs").json() == {"supported_languages": []}
