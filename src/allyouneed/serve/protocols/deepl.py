"""The protocol of DeepL's API, version 2 (https://developers.deepl.com/api-reference), for its clients.

What has no equivalent here is accepted if a translation without it is still what was asked for: `context`,
`model_type`, `preserve_formatting`, `outline_detection`, and the tags that do or do not split sentences.
Sentences are always split, also with `split_sentences=0`, and each text between two tags is translated alone.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from allyouneed.serve.ask import Ask
from allyouneed.serve.directions import Direction
from allyouneed.serve.html_text import HtmlText, xml_fault
from allyouneed.serve.protocols.answers import Answer, always, in_json
from allyouneed.serve.protocols.deepl_languages import Languages, shown
from allyouneed.serve.protocols.deepl_request import Asked, read_translation, read_values
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service

_UNLIMITED: Final = 1_000_000_000_000
"""The limit of characters that DeepL names if there is none."""
_LINE_BREAK: Final = re.compile(r"(?<=\S)[ \t]*\r?\n[ \t]*(?=\S)")
"""A line break within a paragraph."""
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_STATUS: Final = {401: 403, 422: 400}
"""Statuses of refusals for which DeepL has another one."""


def routes(service: Service, settings: ServerSettings) -> APIRouter:
    """The endpoints."""
    endpoints, router = _Endpoints(service, settings), APIRouter(prefix="/v2")
    answers: list[tuple[list[str], str, Answer]] = [
        (["POST"], "/translate", endpoints.translate),
        (["GET", "POST"], "/languages", endpoints.languages),
        (["GET", "POST"], "/usage", endpoints.usage),
        (["GET"], "/glossaries", always({"glossaries": []})),
        (["GET"], "/glossary-language-pairs", always({"supported_languages": []})),
        (_METHODS, "/{path:path}", _not_served),
    ]
    for methods, path, answer in answers:
        router.add_api_route(path, in_json(answer, worded), methods=methods, include_in_schema=False)
    return router


def worded(refusal: Refusal) -> JSONResponse:
    """A refusal in DeepL's form."""
    status = _STATUS.get(refusal.status, refusal.status)
    return JSONResponse({"message": refusal.message}, status, refusal.headers)


ERROR_FORMS: Final = {"/v2": worded, "/v3": worded}
"""The form of refusals for the paths of this protocol, and for those below them."""


class _Endpoints:
    """The endpoints that need the service."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self._service, self._settings = service, settings
        self._languages = Languages(service.languages, service.directions)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate texts."""
        asked = read_translation(await read_values(request), self._settings.most_characters)
        self._languages.target(asked.target)  # is served
        passages = await asyncio.to_thread(_passages, asked)
        directions = await self._directions(passages, asked)
        for direction in dict.fromkeys(directions):
            ones = [passage for passage, its in zip(passages, directions, strict=True) if its == direction]
            await self._translate(ones, direction)
        return {
            "translations": [
                _result(asked, passage, shown(direction.source))
                for passage, direction in zip(passages, directions, strict=True)
            ]
        }

    async def languages(self, request: Request) -> list[dict[str, Any]]:
        """The source or target languages."""
        kind = (await read_values(request)).get("type", "source")
        if kind not in ("source", "target"):
            message = "Parameter 'type' is invalid. 'source' and 'target' are valid values."
            raise Refusal(400, "value", message)
        return self._languages.targets() if kind == "target" else self._languages.sources()

    async def usage(self, _: Request) -> dict[str, int]:
        """The number of characters translated since the start."""
        return {
            "character_count": self._service.counts.num_characters,
            "character_limit": _UNLIMITED,
        }

    async def _directions(self, passages: Sequence["_Passage"], asked: Asked) -> list[Direction]:
        """The direction of each text, whose source language is given or detected."""
        if asked.source is not None:
            return [self._languages.direction(asked.source, asked.target)] * len(passages)

        def detect() -> list[Direction]:
            texts = ["\n".join(each.parts)[: self._settings.most_characters] for each in passages]
            return [self._service.route(text, asked.target).direction for text in texts]

        return await asyncio.to_thread(detect)  # the first time, it takes a second

    async def _translate(self, passages: Sequence["_Passage"], direction: Direction) -> None:
        """Translate the parts of passages."""
        if not direction.models:
            return
        parts = [part for each in passages for part in each.parts]
        translations = iter(await self._service.translate_all(parts, Ask(direction.source, direction.target)))
        for each in passages:
            each.translations = [next(translations).translations[0].text for _ in each.parts]


class _Passage:
    """A text of a request, and its parts that are translated: all of it, or what is between tags."""

    def __init__(self, text: str, asked: Asked) -> None:
        self.original = text
        self._document = HtmlText(text, asked.dialect) if asked.dialect else None
        parts = self._document.texts if self._document else [text]
        self.parts = [_LINE_BREAK.sub(" ", part) for part in parts] if asked.joins_lines else parts
        self.translations: list[str] | None = None
        """Translations of the parts, if the text is in another language."""

    @property
    def text(self) -> str:
        """The translated text."""
        if self.translations is None:
            return self.original
        if self._document is None:
            return self.translations[0]
        return self._document.with_translations(self.translations)


def _passages(asked: Asked) -> list[_Passage]:
    """The texts of a request.

    Raises:
        Refusal: A text that is to be XML is not well-formed.
    """
    for number, text in enumerate(asked.texts, start=1):
        if asked.is_xml and (fault := xml_fault(text)):
            message = (
                f"Tag handling parsing failed, please check input. Text {number}, {fault}; "
                "write & and < as &amp; and &lt; and close all tags, or set 'tag_handling' to 'html'."
            )
            raise Refusal(400, "xml", message)
    return [_Passage(text, asked) for text in asked.texts]


def _result(asked: Asked, passage: _Passage, source: str) -> dict[str, Any]:
    result: dict[str, Any] = {"detected_source_language": source, "text": passage.text}
    if asked.has_billed_characters:
        result["billed_characters"] = len(passage.original)
    if asked.model_type is not None:
        result["model_type_used"] = asked.model_type
    return result


async def _not_served(_: Request) -> Any:
    message = (
        "Not found: this server has no documents, glossaries, rephrasing or other additions to translation."
    )
    raise Refusal(404, "not_served", message)
