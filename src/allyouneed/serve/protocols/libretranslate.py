"""The protocol of LibreTranslate 1.9 (https://docs.libretranslate.com), for its clients."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice, product
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from allyouneed.data.words import has_letters
from allyouneed.files.formats import FORMATS
from allyouneed.language_codes import closest_code, standard_code
from allyouneed.markup.dialect import HTML
from allyouneed.markup.document import Passages
from allyouneed.serve.directions import AUTO, Direction, Route, between, to_itself
from allyouneed.serve.protocols.protocol import (
    Protocol,
    always,
    file_response,
    media_type,
    read_form,
    read_object,
    read_upload,
    router_of,
)
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_BEAMS, MOST_TEXTS, RequestOptions
from allyouneed.serve.service import Service
from allyouneed.tasks.translation.outputs import Translation

_MOST_CHARACTERS: Final = 40
UNKNOWN: Final = "en"
"""The language that LibreTranslate names, with confidence 0, for a text that has none."""


class _Languages:
    """The served languages by LibreTranslate's codes; each can also be "translated" to itself."""

    def __init__(self, names: Mapping[str, str], directions: Sequence[Direction]) -> None:
        self._names = names
        self._directions = directions

    def direction(self, source: str, target: str) -> Direction:
        """Return the direction between two languages, which is refused if no model translates in it."""
        codes = self.require(source, is_source=True), self.require(target)
        if found := between(self._directions, source, target):
            return found
        origin, to = (f"{self._names[code]} ({shown(code)})" for code in codes)
        message = f"{to} is not available as a target language from {origin}"
        raise Refusal(400, "no_direction", message)

    def require(self, code: str, *, is_source: bool = False) -> str:
        """Return the models' code of a language, which is refused if it is not served."""
        if (found := closest_code(code, self._names, is_source=is_source)) is None:
            raise Refusal(400, "no_language", f"{code.lower()[:_MOST_CHARACTERS]} is not supported")
        return found

    def description(self) -> list[dict[str, Any]]:
        """Return the languages, each with its targets, as LibreTranslate describes them."""
        return self._described

    @cached_property
    def _described(self) -> list[dict[str, Any]]:
        pairs = {(each.source, each.target) for each in self._directions}
        for each in self._directions:
            pairs.update(product(each.languages, each.languages))
        return [
            {
                "code": shown(code),
                "name": name,
                "targets": sorted(shown(to) for to in self._names if to == code or (code, to) in pairs),
            }
            for code, name in self._names.items()
        ]


def detection(code: str, probability: float) -> dict[str, Any]:
    """A detected language, with its probability in percent, as LibreTranslate describes it."""
    return {"confidence": float(round(100 * probability)), "language": shown(code)}


def shown(code: str) -> str:
    """LibreTranslate's code for a language."""
    return "zh-Hans" if standard_code(code) == "zh" else standard_code(code)


_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_LANGUAGE: Final = {"type": "object", "properties": {"code": _TEXT, "name": _TEXT, "targets": _TEXTS}}
_DETECTION: Final = {"type": "object", "properties": {"confidence": {"type": "number"}, "language": _TEXT}}
_TRANSLATION: Final = {
    "type": "object",
    "required": ["translatedText"],
    "properties": {
        "translatedText": {"description": "A string, or a list if q is one."},
        "detectedLanguage": _DETECTION,
        "alternatives": {"type": "array", "description": "Strings, or lists of them if q is a list."},
    },
}
_ERROR: Final = {"type": "object", "required": ["error"], "properties": {"error": _TEXT}}


def _endpoint(answer: dict[str, Any], **fields: str) -> dict[str, Any]:
    """An endpoint from the schema of its answer and the descriptions of its form's fields."""
    refused = {str(status): {"description": "refused", "schema": _ERROR} for status in (400, 403, 429)}
    return {
        "consumes": ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
        "parameters": [
            {"in": "formData", "name": name, "type": "string", "description": description}
            for name, description in fields.items()
        ],
        "responses": {"200": {"description": "answered", "schema": answer}, **(refused if fields else {})},
    }


_KEY: Final = "The server's token, if it needs one."
SPECIFICATION: Final[dict[str, Any]] = {
    "swagger": "2.0",
    "info": {"title": "allyouneed: LibreTranslate's protocol", "version": "1.9"},
    "basePath": "/",
    "produces": ["application/json"],
    "paths": {
        "/translate": {
            "post": _endpoint(
                _TRANSLATION,
                q="A text; in JSON also a list of texts.",
                source='Code of the source language, or "auto".',
                target="Code of the target language.",
                format='"text" or "html", where what is between tags is translated.',
                alternatives="Number of further translations.",
                api_key=_KEY,
            )
        },
        "/translate_file": {
            "post": _endpoint(
                {"type": "object", "properties": {"translatedFileUrl": _TEXT}},
                file="A file, in a form of type multipart/form-data.",
                source='Code of the source language, or "auto".',
                target="Code of the target language.",
                api_key=_KEY,
            )
        },
        "/detect": {
            "post": _endpoint({"type": "array", "items": _DETECTION}, q="A text.", api_key=_KEY),
        },
        "/languages": {"get": _endpoint({"type": "array", "items": _LANGUAGE})},
        "/frontend/settings": {"get": _endpoint({"type": "object"})},
        "/health": {"get": _endpoint({"type": "object", "properties": {"status": _TEXT}})},
    },
}


@dataclass(frozen=True)
class Fields:
    """The fields of a request: of its JSON object, or of its query and form."""

    values: Mapping[str, Any]
    are_json: bool

    def required(self, name: Literal["q", "source", "target"]) -> Any:
        """Return the value of a field; refuse a request without it."""
        if value := self.values.get(name):
            return value
        raise invalid(f"missing {name} parameter")

    def texts(self) -> list[str]:
        """Return the texts of `q`, in a form with line feeds as line ends; refuse it if it has others."""
        text = self.required("q")
        texts = text if isinstance(text, list) else [text]
        if not all(isinstance(each, str) for each in texts):
            raise invalid("q parameter is not a text or a list of texts")
        if not self.are_json:
            texts = [each.replace("\r\n", "\n").replace("\r", "\n") for each in texts]
        return texts

    def num_alternatives(self) -> int:
        """Return the number of translations wanted besides the best one; refuse one that is too large."""
        most = MOST_BEAMS - 1
        try:
            number = max(0, int(self.values.get("alternatives", 0)))
        except (TypeError, ValueError):
            raise invalid("alternatives parameter is not a number") from None
        if number > most:
            raise invalid(f"alternatives parameter must be <= {most}")
        return number

    def is_html(self) -> bool:
        """Whether the format is HTML; refuse unknown ones."""
        text_format = self.values.get("format") or "text"
        if text_format not in ("text", "html"):
            raise Refusal(400, "unknown_format", f"{text_format} format is not supported")
        return bool(text_format == "html")


def invalid(reason: str) -> Refusal:
    """The refusal of a request with a wrong field."""
    return Refusal(400, "invalid_request", f"Invalid request: {reason}")


async def read_fields(request: Request) -> Fields:
    """Read the fields of a request: a JSON object, or the query and a form, of which the query comes first.

    Several `q` make a list; of other equal fields, the first one counts.
    """
    kind = media_type(request)
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return Fields(await read_object(request, _not_json), are_json=True)
    form, query = await read_form(request), request.query_params.multi_items()
    texts = [value for name, value in query if name == "q"] or [value for name, value in form if name == "q"]
    values: dict[str, Any] = dict(reversed(query + form))
    return Fields(values | ({"q": texts} if len(texts) > 1 else {}), are_json=False)


def _not_json(reason: str) -> Refusal:
    return Refusal(400, "not_json", "Invalid JSON format" + (f": {reason}" if reason else ""))


_NO_KEY: Final = Refusal(400, "no_key", "Please contact the server operator to get an API key")
_WRONG_KEY: Final = Refusal(403, "wrong_key", "Invalid API key")
_MOST_DETECTIONS: Final = 3
_MILLISECONDS_BETWEEN_KEYS: Final = 500
_NO_FILES: Final = "switched_off", "Files translation are disabled on this server."
_NO_SUGGESTIONS: Final = "switched_off", "Suggestions are disabled on this server."


def routes(service: Service) -> APIRouter:
    """The endpoints."""
    endpoints = _Endpoints(service)
    answers = [
        (["POST"], "/translate", endpoints.translate),
        (["POST"], "/detect", endpoints.detect),
        (["GET", "HEAD"], "/languages", endpoints.languages),
        (["GET", "HEAD"], "/frontend/settings", endpoints.frontend_settings),
        (["GET", "HEAD"], "/health", always({"status": "ok"})),
        (["GET", "HEAD"], "/spec", always(SPECIFICATION)),
        (["POST"], "/suggest", always(Refusal(403, *_NO_SUGGESTIONS))),
        (["POST"], "/translate_file", endpoints.translate_file),
        (["GET"], "/download_file/{name}", endpoints.download_file),
    ]
    return router_of(answers)


def error_response(refusal: Refusal) -> JSONResponse:
    """The response for a refusal, in LibreTranslate's form.

    A refusal of 401 is of a missing token if its label begins with "no", else of a wrong one.
    """
    if refusal.status == 401:
        refusal = _NO_KEY if refusal.label.startswith("no") else _WRONG_KEY
    status = 400 if refusal.status == 422 or refusal.label == "no_direction" else refusal.status
    message = f"Slowdown: {refusal.message}" if status == 429 else refusal.message
    return JSONResponse({"error": message}, status, refusal.headers)


PROTOCOL: Final = Protocol(
    "libretranslate",
    routes,
    error_response,
    error_paths=(
        *("/translate", "/detect", "/languages", "/frontend", "/spec"),
        *("/suggest", "/translate_file", "/download_file"),
    ),
    open_paths=frozenset({"/languages", "/frontend/settings", "/health", "/spec", "/download_file/"}),
    file_paths=frozenset({"/translate_file"}),
    token_fields={("http", path): "api_key" for path in ("/translate", "/detect", "/translate_file")},
)


class _Endpoints:
    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.settings
        self._languages = _Languages(service.languages, service.directions)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate a text or a list of them, as text or as HTML."""
        fields = await read_fields(request)
        texts, source, target = fields.texts(), str(fields.required("source")), str(fields.required("target"))
        num_alternatives = fields.num_alternatives()
        most_characters = self._settings.most_characters
        for size, limit in ((len(texts), MOST_TEXTS), (max(map(len, texts)), most_characters)):
            if size > limit:
                raise invalid(f"request ({size}) exceeds text limit ({limit})")
        given = None if source.lower() == AUTO else self._languages.direction(source, target)
        self._languages.require(target)
        dialect = HTML if fields.is_html() else None
        passages = await asyncio.to_thread(Passages, texts, dialect)
        parts = [part.text for each in passages.parts for part in each]
        route = Route(given) if given else await self._detect(parts, target)
        n_best = 1 if dialect else num_alternatives + 1
        found = await self._translations(parts, route.direction, n_best, links=passages.need_links)
        hypotheses = [[each.text for each in of_part] for of_part in found]
        if dialect:
            best = ((each.text, each.links) for each, *_ in found)
            of_texts = [list(islice(best, len(each))) for each in passages.parts]
            joined = asyncio.to_thread(lambda: [*map(passages.joined, count(), of_texts)])
            hypotheses = [[text] for text in await joined]
        answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in hypotheses]}
        if given is None:
            detected = detection(route.direction.source, route.confidence or 0.0)
            answer["detectedLanguage"] = [detected] * len(hypotheses)
        if num_alternatives:
            others = [[*dict.fromkeys(each)][1:] for each in hypotheses]
            answer["alternatives"] = [[other for other in each if other] for each in others]
        if isinstance(fields.values["q"], list):
            return answer
        return {name: values[0] for name, values in answer.items()}

    async def translate_file(self, request: Request) -> dict[str, Any]:
        """Translate a file; the answer has an address where the result can be fetched once."""
        if (documents := self._service.documents) is None:
            raise Refusal(403, *_NO_FILES)
        given, upload = await read_upload(request)
        fields = Fields(dict(reversed(request.query_params.multi_items() + given)), are_json=False)
        if upload is None:
            raise invalid("missing file parameter")
        source, target = str(fields.required("source")), str(fields.required("target"))
        options = RequestOptions(AUTO, self._languages.require(target))
        if source.lower() != AUTO:
            direction = self._languages.direction(source, target)
            options = RequestOptions(direction.source, direction.target)
        document = documents.begin(*upload, options)
        assert document.task is not None
        try:
            await document.task
            if document.error:
                raise document.error
        except BaseException:  # also if the client has gone
            documents.forget(document)
            raise
        name = f"{document.key}{Path(document.name).suffix}"
        return {"translatedFileUrl": f"{request.base_url}download_file/{name}"}

    async def download_file(self, request: Request) -> Response:
        if (documents := self._service.documents) is None:
            raise Refusal(400, *_NO_FILES)
        document = documents.with_key(Path(request.path_params["name"]).stem)
        if document is None or not document.has_ended or document.error:
            raise Refusal(404, "no_file", "there is no such file, or it has been fetched")
        return file_response(document.name, await asyncio.to_thread(documents.take, document))

    async def detect(self, request: Request) -> list[dict[str, Any]]:
        texts = (await read_fields(request)).texts()
        detecting = asyncio.to_thread(self._service.detect, self._joined(texts))  # takes a second at first
        found = [detection(*each) for each in (await detecting)[:_MOST_DETECTIONS]]
        return [each for each in found if each["confidence"]] or found[:1] or [detection(UNKNOWN, 0)]

    async def languages(self, _: Request) -> list[dict[str, Any]]:
        return self._languages.description()

    async def frontend_settings(self, _: Request) -> dict[str, Any]:
        needs_key = self._settings.token is not None
        target = next((each.target for each in self._service.directions if each.target), UNKNOWN)
        return {
            "charLimit": self._settings.most_characters,
            "frontendTimeout": _MILLISECONDS_BETWEEN_KEYS,
            "apiKeys": needs_key,
            "keyRequired": needs_key,
            "suggestions": False,
            "filesTranslation": self._service.documents is not None,
            "supportedFilesFormat": [*FORMATS] if self._service.documents else [],
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": shown(target), "name": self._service.languages.get(target, "English")},
            },
        }

    async def _detect(self, texts: Sequence[str], target: str) -> Route:
        """The direction of texts in the same language, which is detected."""
        if not any(map(has_letters, texts)):
            return Route(to_itself(UNKNOWN))
        return await asyncio.to_thread(self._service.route, self._joined(texts), target)

    def _joined(self, texts: Sequence[str]) -> str:
        return "\n".join(texts)[: self._settings.most_characters]

    async def _translations(
        self, texts: Sequence[str], direction: Direction, n_best: int, *, links: bool
    ) -> list[list[Translation]]:
        if not direction.models:
            return [[Translation(text, 0.0)] for text in texts]
        search = self._service.search_for(n_best, direction.models)
        options = RequestOptions(
            direction.source, direction.target, n_best=n_best, links=links, search=search
        )
        translated = await self._service.translate_all(texts, options)
        return [each.translations for each in translated]
