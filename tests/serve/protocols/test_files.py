"""Files that clients send: translated, fetched once, bounded, and gone afterwards."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import deepl
import httpx
import pytest
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import DECODING, SETTINGS, StartServer

from allyouneed.serve.directions import Route, to_itself
from allyouneed.serve.documents import Documents
from allyouneed.serve.models import ServedModel
from allyouneed.serve.process import serving
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions, Translated, unchanged

STRINGS = json.dumps({"a": "sun moon", "b": "bird sees {name}"}).encode()


@pytest.fixture
def address(start_server: StartServer) -> str:
    return start_server(files=True)


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client:
        yield client


def send(
    client: httpx.Client, name: str = "en.json", content: bytes = STRINGS, **fields: str
) -> httpx.Response:
    data = {"source": "en", "target": "de"} | fields
    return client.post("/translate_file", data=data, files={"file": (name, content)})


def test_a_file_is_translated_and_can_be_fetched_once(client: httpx.Client) -> None:
    url = send(client).json()["translatedFileUrl"]
    fetched = client.get(url)
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''en.json"
    assert fetched.headers["content-type"] == "application/json"
    assert fetched.json()["b"].count("{name}") == 1
    assert fetched.json()["a"] != "sun moon"
    assert client.get(url).status_code == 404


def test_placeholders_stay_over_a_third_language(client: httpx.Client) -> None:
    url = send(client, target="fr").json()["translatedFileUrl"]
    assert client.get(url).json()["b"].count("{name}") == 1


def test_texts_keep_their_lines(client: httpx.Client) -> None:
    url = send(client, "en.txt", b"sun moon\n\nbird\n").json()["translatedFileUrl"]
    assert [bool(line) for line in client.get(url).text.split("\n")] == [True, False, True, False]


def test_more_files_than_threads_are_translated_at_the_same_time(start_server: StartServer) -> None:
    address = start_server(files=True, keep=True)
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client:
        fields = {"source_lang": "EN", "target_lang": "DE"}
        content = "\n".join(f"sun moon {{x{number}}}" for number in range(8)).encode()
        sent = [
            client.post("/v2/document", data=fields, files={"file": (f"{number}.txt", content)}).json()
            for number in range(12)
        ]
        for each in sent:
            place, key = f"/v2/document/{each['document_id']}", {"document_key": each["document_key"]}
            while client.post(place, data=key).json()["status"] != "done":
                threading.Event().wait(0.05)
            assert client.post(f"{place}/result", data=key).text.count("{x") == 8


def test_who_leaves_takes_no_place(client: httpx.Client) -> None:
    content = "\n".join(f"sun moon bird {number}" for number in range(3_000)).encode()
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            client.post(
                "/translate_file",
                data={"source": "en", "target": "de"},
                files={"file": ("a.txt", content)},
                timeout=httpx.Timeout(PATIENCE_SECONDS, read=0.2),
            )
    fields = {"source_lang": "EN", "target_lang": "DE"}
    statuses = [
        client.post("/v2/document", data=fields, files={"file": ("a.txt", b"sun")}).status_code
        for _ in range(32)
    ]
    assert statuses == [200] * 32


def test_a_translation_memory_is_extended(client: httpx.Client) -> None:
    memory = b'<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>sun</seg></tuv></tu></body></tmx>'
    url = send(client, "a.tmx", memory).json()["translatedFileUrl"]
    assert '<tuv xml:lang="de"><seg>' in client.get(url).text
    assert send(client, "a.tmx", memory, source="auto").status_code == 400


@pytest.mark.parametrize("target", ["de", "en"])
def test_a_file_in_the_target_language_stays(client: httpx.Client, target: str) -> None:
    url = send(client, "a.txt", b"sun moon\n", source=target, target=target).json()["translatedFileUrl"]
    assert client.get(url).content == b"sun moon\n"


def test_texts_that_take_too_long_together_are_translated_by_fewer() -> None:
    sizes = list[int]()

    async def translate(texts: list[str], _: RequestOptions) -> list[Translated]:
        sizes.append(len(texts))
        if len(texts) > 5:
            raise Refusal(504, "deadline", "not done")
        return [unchanged(text.upper(), "de") for text in texts]

    async def translated(content: bytes) -> bytes:
        with Documents(translate, lambda text, target: Route(to_itself(target))) as documents:
            document = documents.begin("a.txt", content, RequestOptions("en", "de"))
            assert document.task is not None
            await document.task
            return documents.take(document)

    lines = "\n".join(f"line {number}" for number in range(40))
    assert asyncio.run(translated(lines.encode())).decode() == lines.upper()
    assert sizes == [32, 16, 8, 4, 4, 8, 4, 4, 16, 8, 4, 4, 8, 4, 4, 8, 4, 4]


def test_the_language_of_a_file_can_be_detected(client: httpx.Client) -> None:
    assert send(client, source="auto").status_code == 200


@pytest.mark.parametrize(
    ("name", "content", "status", "message"),
    [
        ("a.doc", b"x", 415, "files of .doc are not translated"),
        ("a.json", b"{", 400, "a.json: no JSON"),
        ("a.docx", b"x", 400, "a.docx: no whole archive"),
        ("", b"x", 400, "missing file parameter"),
    ],
)
def test_wrong_files_are_refused(
    client: httpx.Client, name: str, content: bytes, status: int, message: str
) -> None:
    refused = send(client, name, content)
    assert refused.status_code == status
    assert message in refused.json()["error"]


def test_a_file_may_be_larger_than_other_requests_but_not_too_large(client: httpx.Client) -> None:
    assert send(client, "a.txt", b"7" * (2**20 + 1)).status_code == 200
    assert send(client, "a.txt", b"7" * (2**24 + 1)).status_code == 413


def test_the_server_says_which_files_it_takes(client: httpx.Client) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert {".docx", ".srt"} <= {*settings["supportedFilesFormat"]}
    assert ".docx" in client.get("/api/models").json()["files"]


def test_a_server_without_files_says_so(start_server: StartServer) -> None:
    with httpx.Client(base_url=start_server(), timeout=PATIENCE_SECONDS) as client:
        assert send(client).status_code == 403
        assert client.get("/frontend/settings").json()["filesTranslation"] is False
        refused = client.post("/v2/document", data={"target_lang": "DE"}, files={"file": ("a.txt", b"sun")})
        assert refused.status_code == 404
        assert "--files" in refused.json()["message"]


def test_a_file_needs_the_token_and_its_translation_does_not(start_server: StartServer) -> None:
    address = start_server(files=True, token="secret")
    with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client:
        assert send(client).status_code == 400
        url = send(client, api_key="secret").json()["translatedFileUrl"]
        assert client.get(url).status_code == 200


def test_the_client_of_deepl_translates_a_document(address: str, tmp_path: Path) -> None:
    source, out = tmp_path / "en.json", tmp_path / "de.json"
    source.write_bytes(STRINGS)
    with closing(deepl.DeepLClient("any-key", server_url=address)) as client:
        status = client.translate_document_from_filepath(source, out, source_lang="EN", target_lang="DE")
        assert status.status == deepl.DocumentStatus.Status.DONE
        assert status.billed_characters == len("sun moonbird sees {name}")
        assert json.loads(out.read_bytes())["b"].count("{name}") == 1
        source.write_bytes(b"{")
        with pytest.raises(deepl.DocumentTranslationException, match="no JSON"):
            client.translate_document_from_filepath(source, out, source_lang="EN", target_lang="DE")
        with pytest.raises(deepl.DeepLException, match="output_format"):
            client.translate_document_from_filepath(
                source, tmp_path / "de.docx", source_lang="EN", target_lang="DE"
            )


def test_a_document_is_only_for_who_has_its_key(client: httpx.Client) -> None:
    sent = client.post(
        "/v2/document",
        data={"source_lang": "EN", "target_lang": "DE"},
        files={"file": ("a.txt", b"sun moon")},
    ).json()
    place = f"/v2/document/{sent['document_id']}"
    assert client.post(place, data={"document_key": "0" * 64}).status_code == 404
    assert client.post(f"{place}/result", data={"document_key": "0" * 64}).status_code == 404
    given = {"document_key": sent["document_key"]}
    while client.post(place, data=given).json()["status"] != "done":
        threading.Event().wait(0.02)
    assert client.post(f"{place}/result", data=given).status_code == 200
    assert client.post(f"{place}/result", data=given).status_code == 404


def test_there_are_only_so_many_documents(client: httpx.Client) -> None:
    fields = {"source_lang": "EN", "target_lang": "DE"}
    statuses = [
        client.post("/v2/document", data=fields, files={"file": ("a.txt", b"sun")}).status_code
        for _ in range(34)
    ]
    assert statuses.count(200) == 32
    assert set(statuses) == {200, 429}


def test_the_folder_of_files_goes_with_the_server(models: list[ServedModel]) -> None:
    with serving(models, DECODING, replace(SETTINGS, files=True)) as service:
        assert service.documents is not None
        folder = Path(service.documents._folder.name)
        assert folder.is_dir()
    assert not folder.exists()
