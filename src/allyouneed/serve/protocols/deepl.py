"""The protocol of DeepL's API, version 2 (https://developers.deepl.com/api-reference), for its clients."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import ImmutableMultiDict

from allyouneed.data.strict_json import parse_object
from allyouneed.errors import DataError
from allyouneed.language_codes import closest_code, spoken_language, standard_code
from allyouneed.serve.directions import Direction, between
from allyouneed.serve.html_text import HTML, XML, Dialect, HtmlText, xml_fault
from allyouneed.serve.protocols.protocol import Protocol, always, read_form, router_of
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions
from allyouneed.serve.server_settings import MOST_FIELDS, MOST_TEXTS, ServerSettings
from allyouneed.serve.service import Service

_SHOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "EN": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "EN-GB": {"EN-GB": "English (British)"},
    "EN-US": {"EN-US": "English (American)"},
    "NB": {"NB": "Norwegian (bokmål)"},
    "PT": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "PT-BR": {"PT-BR": "Portuguese (Brazilian)"},
    "PT-PT": {"PT-PT": "Portuguese (European)"},
    "ZH": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "ZH-HANS": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
    "ZH-HANT": {"ZH-HANT": "Chinese (traditional)"},
}
"""Target languages that DeepL lists under other codes or names than ours."""


class Languages:
    """The served languages by DeepL's codes, which are read in any case; `names` are in English."""

    def __init__(self, names: Mapping[str, str], directions: Sequence[Direction]) -> None:
        self._names = names
        self._directions = directions
        self._sources = list(dict.fromkeys(each.source for each in directions))
        self._targets = list(dict.fromkeys(each.target for each in directions))

    def target(self, code: str) -> str:
        """Return the models' code of a target language or of the closest variant; refuse others."""
        return _served(closest_code(code, self._targets), "target_lang")

    def direction(self, source: str, target: str) -> Direction:
        """Return the direction between two languages, which is refused if no model translates in it.

        Between a language and itself, it has no models.
        """
        to = self.target(target)
        origin = _served(closest_code(source, [*self._sources, to], is_source=True), "source_lang")
        if found := between(self._directions, source, target):
            return found
        pair = f"'{shown(origin)}' => '{_deepl_code(to)}'"
        raise Refusal(400, "no_direction", f"Unsupported language pair: {pair}.")

    def sources(self) -> list[dict[str, Any]]:
        """Return the source languages, as DeepL lists them."""
        listed = {shown(code): self._names[code].partition(" (")[0] for code in self._sources}
        return [{"language": code, "name": name} for code, name in sorted(listed.items())]

    def targets(self) -> list[dict[str, Any]]:
        """Return the target languages, as DeepL lists them."""
        listed: dict[str, str] = {}
        for code in self._targets:
            listed |= _SHOWN.get(_deepl_code(code), {_deepl_code(code): self._names[code]})
        return [
            {"language": code, "name": name, "supports_formality": False}
            for code, name in sorted(listed.items())
        ]


def shown(source: str) -> str:
    """DeepL's code for a source language."""
    return _deepl_code(source).partition("-")[0]


def _deepl_code(code: str) -> str:
    return "NB" if spoken_language(code) == "no" else standard_code(code).upper()


def _served(found: str | None, field: str) -> str:
    if found is None:
        raise Refusal(400, "no_language", f"Value for '{field}' not supported.")
    return found


Values = Mapping[str, Any]
_ON: Final = (True, "1", "true")
_OFF: Final = (False, "0", "false")
_MODEL_TYPES: Final = ("latency_optimized", "quality_optimized", "prefer_quality_optimized")
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "split_sentences": ("0", "1", "nonewlines"),
    "preserve_formatting": _ON + _OFF,
    "outline_detection": _ON + _OFF,
    "show_billed_characters": _ON + _OFF,
    "formality": ("default", "prefer_less", "prefer_more", "less", "more"),
    "tag_handling": ("html", "xml"),
    "model_type": _MODEL_TYPES,
}
_NOT_SERVED: Final = (
    "glossary_id",
    "glossary_ids",
    "style_id",
    "translation_memory_id",
    "custom_instructions",
)
"""Fields that would change translations, if there were what they refer to."""


@dataclass(frozen=True)
class TranslationFields:
    """The fields of a request to translate."""

    texts: list[str]
    source: str | None
    """DeepL's code of the source language; None: detected."""
    target: str
    """DeepL's code of the target language."""
    joins_lines: bool
    """Whether a sentence goes on after a line break."""
    dialect: Dialect | None
    """Language of the texts' tags, if they are not plain."""
    is_xml: bool
    """Whether the texts have to be well-formed XML."""
    has_billed_characters: bool
    """Whether the answer says how many characters each text has."""
    model_type: str | None
    """Type of the model, of which a server like this has only one."""


def read_translation(values: Values, most_characters: int) -> TranslationFields:
    """Read the fields of a request to translate; unknown ones are ignored, as by DeepL.

    Refuses missing fields, values that DeepL does not know, and features that are not served.
    """
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise unsupported(name)
    if values.get("formality") in ("less", "more"):
        raise Refusal(400, "formality", "'formality' is not supported for given 'target_lang'.")
    for name in _NOT_SERVED:
        if name in values:
            raise Refusal(400, "not_served", f"'{name}' is not supported: this server only translates texts.")
    model_type = values.get("model_type")
    return TranslationFields(
        _texts(values.get("text"), most_characters),
        _code(values, "source_lang"),
        _code(values, "target_lang") or "",
        values.get("split_sentences") == "nonewlines",
        _dialect(values),
        values.get("tag_handling") == "xml",
        values.get("show_billed_characters") in _ON,
        model_type.removeprefix("prefer_") if model_type else None,
    )


def unsupported(name: str) -> Refusal:
    """The refusal of a field's value."""
    return Refusal(400, "value", f"Value for '{name}' not supported.")


async def read_values(request: Request) -> Values:
    """Read the fields that have a value: of a JSON object or a form, and of the query."""
    found = {name: _listed(name, request.query_params.getlist(name)) for name in request.query_params}
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json":
        found |= _json_object(await request.body())
    else:
        form = ImmutableMultiDict(await read_form(request))
        found |= {name: _listed(name, form.getlist(name)) for name in form}
    return {name: value for name, value in found.items() if value not in (None, "")}


def _listed(name: str, values: list[Any]) -> Any:
    return values if name == "text" else values[0]


def _json_object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        return parse_object(body.decode(), MOST_FIELDS)
    except (UnicodeDecodeError, DataError):
        raise Refusal(400, "not_json", "Bad request. Reason: the body is not a JSON object.") from None


def _texts(value: Any, most_characters: int) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not texts:
        raise Refusal(400, "no_text", "Parameter 'text' not specified.")
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise unsupported("text")
    if len(texts) > MOST_TEXTS:
        raise Refusal(413, "too_many_texts", f"Request size exceeds the limit of {MOST_TEXTS} texts.")
    if max(map(len, texts)) > most_characters:
        message = f"Request size exceeds the limit of {most_characters} characters per text."
        raise Refusal(413, "too_long", message)
    return texts


def _code(values: Values, name: Literal["source_lang", "target_lang"]) -> str | None:
    code = values.get(name)
    if code is not None and not isinstance(code, str):
        raise unsupported(name)
    return code


def _dialect(values: Values) -> Dialect | None:
    """The language of tags."""
    handling, ignored = values.get("tag_handling"), values.get("ignore_tags", [])
    names = ignored.split(",") if isinstance(ignored, str) else ignored
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise unsupported("ignore_tags")
    dialects = {"html": HTML, "xml": XML}
    return dialects[handling].without(name.strip() for name in names) if handling else None


_UNLIMITED: Final = 1_000_000_000_000
"""The limit of characters that DeepL names if there is none."""
_LINE_BREAK: Final = re.compile(r"(?<=\S)[ \t]*\r?\n[ \t]*(?=\S)")
"""A line break within a paragraph."""
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_STATUS: Final = {401: 403, 422: 400}
"""Statuses of refusals for which DeepL has another one."""


def routes(service: Service, settings: ServerSettings) -> APIRouter:
    """The endpoints."""
    endpoints = _Endpoints(service, settings)
    answers = [
        (["POST"], "/translate", endpoints.translate),
        (["GET", "POST"], "/languages", endpoints.languages),
        (["GET", "POST"], "/usage", endpoints.usage),
        (["GET"], "/glossaries", always({"glossaries": []})),
        (["GET"], "/glossary-language-pairs", always({"supported_languages": []})),
        (_METHODS, "/{path:path}", _not_served),
    ]
    return router_of(answers, prefix="/v2")


def error_response(refusal: Refusal) -> JSONResponse:
    """The response for a refusal, in DeepL's form."""
    status = _STATUS.get(refusal.status, refusal.status)
    return JSONResponse({"message": refusal.message}, status, refusal.headers)


PROTOCOL: Final = Protocol(
    "deepl", routes, error_response, error_paths=("/v2", "/v3"), token_scheme="deepl-auth-key"
)


class _Endpoints:
    """The endpoints that need the service."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        self._service, self._settings = service, settings
        self._languages = Languages(service.languages, service.directions)

    async def translate(self, request: Request) -> dict[str, Any]:
        """Translate texts."""
        fields = read_translation(await read_values(request), self._settings.most_characters)
        self._languages.target(fields.target)  # is served
        passages = await asyncio.to_thread(_passages, fields)
        directions = await self._directions(passages, fields)
        for direction in dict.fromkeys(directions):
            ones = [passage for passage, its in zip(passages, directions, strict=True) if its == direction]
            await self._translate(ones, direction)
        return {
            "translations": [
                _result(fields, passage, shown(direction.source))
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
            "character_count": self._service.metrics.num_characters,
            "character_limit": _UNLIMITED,
        }

    async def _directions(self, passages: Sequence["_Passage"], fields: TranslationFields) -> list[Direction]:
        """The direction of each text, whose source language is given or detected."""
        if fields.source is not None:
            return [self._languages.direction(fields.source, fields.target)] * len(passages)

        def detect() -> list[Direction]:
            texts = ["\n".join(each.parts)[: self._settings.most_characters] for each in passages]
            return [self._service.route(text, fields.target).direction for text in texts]

        return await asyncio.to_thread(detect)  # the first time, it takes a second

    async def _translate(self, passages: Sequence["_Passage"], direction: Direction) -> None:
        """Translate the parts of passages."""
        if not direction.models:
            return
        parts = [part for each in passages for part in each.parts]
        translations = iter(
            await self._service.translate_all(parts, RequestOptions(direction.source, direction.target))
        )
        for each in passages:
            each.translations = [next(translations).translations[0].text for _ in each.parts]


class _Passage:
    """A text of a request, and its parts that are translated: all of it, or what is between tags."""

    def __init__(self, text: str, fields: TranslationFields) -> None:
        self.original = text
        self._document = HtmlText(text, fields.dialect) if fields.dialect else None
        parts = self._document.texts if self._document else [text]
        self.parts = [_LINE_BREAK.sub(" ", part) for part in parts] if fields.joins_lines else parts
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


def _passages(fields: TranslationFields) -> list[_Passage]:
    """The texts of a request; a text that is to be XML, and is not well-formed, is refused."""
    for number, text in enumerate(fields.texts, start=1):
        if fields.is_xml and (fault := xml_fault(text)):
            message = (
                f"Tag handling parsing failed, please check input. Text {number}, {fault}; "
                "write & and < as &amp; and &lt; and close all tags, or set 'tag_handling' to 'html'."
            )
            raise Refusal(400, "xml", message)
    return [_Passage(text, fields) for text in fields.texts]


def _result(fields: TranslationFields, passage: _Passage, source: str) -> dict[str, Any]:
    result: dict[str, Any] = {"detected_source_language": source, "text": passage.text}
    if fields.has_billed_characters:
        result["billed_characters"] = len(passage.original)
    if fields.model_type is not None:
        result["model_type_used"] = fields.model_type
    return result


async def _not_served(_: Request) -> Any:
    message = (
        "Not found: this server has no documents, glossaries, rephrasing or other additions to translation."
    )
    raise Refusal(404, "not_served", message)
