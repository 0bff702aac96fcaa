"""Texts without letters and white space come back as they are, in every protocol."""

import html
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.patience import PATIENCE_SECONDS
from tests.serve.conftest import StartServer
from websockets.sync.client import connect

LETTERLESS = ["|", "---", "...", "•", "€", "10:30", "1️⃣ #️⃣", " ( ) ", "🌷", "1.234,50", "½", "3.º", "\t"]


def own(client: httpx.Client, texts: list[str]) -> list[str]:
    found = client.post("/api/translate", json={"text": texts, "source": "en", "target": "de"})
    return [each["translations"][0]["text"] for each in found.json()["results"]]


def libretranslate(client: httpx.Client, texts: list[str]) -> Any:
    found = client.post("/translate", json={"q": texts, "source": "en", "target": "de"})
    return found.json()["translatedText"]


def libretranslate_html(client: httpx.Client, texts: list[str]) -> list[str]:
    document = "".join(f"<td>{html.escape(text, quote=False)}</td>" for text in texts)
    found = client.post("/translate", json={"q": document, "source": "en", "target": "de", "format": "html"})
    cells = found.json()["translatedText"].removeprefix("<td>").removesuffix("</td>").split("</td><td>")
    return [html.unescape(cell) for cell in cells]


def deepl(client: httpx.Client, texts: list[str]) -> list[str]:
    found = client.post("/v2/translate", json={"text": texts, "source_lang": "EN", "target_lang": "DE"})
    return [each["text"] for each in found.json()["translations"]]


def openai(client: httpx.Client, texts: list[str]) -> list[str]:
    def answer(text: str) -> Any:
        body = {"model": "en-de", "messages": [{"role": "user", "content": text}]}
        found = client.post("/v1/chat/completions", json=body)
        return found.json()["choices"][0]["message"]["content"]

    return [answer(text) for text in texts]


def marian(client: httpx.Client, texts: list[str]) -> list[str]:
    address = str(client.base_url).replace("http", "ws").rstrip("/")
    with connect(f"{address}/translate?source=en&target=de", proxy=None) as socket:
        socket.send("\n".join(texts))
        return str(socket.recv(PATIENCE_SECONDS)).removesuffix("\n").split("\n")


@pytest.mark.parametrize("protocol", [own, libretranslate, libretranslate_html, deepl, openai, marian])
def test_what_has_no_letters_comes_back_as_it_is(
    start_server: StartServer, protocol: Callable[[httpx.Client, list[str]], list[str]]
) -> None:
    with httpx.Client(base_url=start_server(), timeout=PATIENCE_SECONDS) as client:
        assert protocol(client, LETTERLESS) == LETTERLESS
