"""The protocol of DeepL's API, version 2 (https://developers.deepl.com/api-reference), for its clients."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import ImmutableMultiDict

from allyouneed.language_codes import closest_code
from allyouneed.markup.dialect import DIALECTS, Dialect, xml_fault
from allyouneed.markup.document import Passages
from allyouneed.markup.marks import MarkedText
from allyouneed.serve.directions import AUTO, Direction, between, sources_of, targets_of
from allyouneed.serve.protocols.deepl_documents import document_answers
from allyouneed.serve.protocols.deepl_glossaries import (
    deepl_code,
    glossary_answers,
    glossary_languages,
    in_folder,
    stored_glossary,
)
from allyouneed.serve.protocols.protocol import (
    Protocol,
    always,
    media_type,
    read_form,
    read_object,
    router_of,
)
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import MOST_TEXTS, RequestOptions
from allyouneed.serve.service import Service
from allyouneed.terms.glossary import Glossary

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
        self._sources = list(dict.fromkeys(sources_of(directions)))
        self._targets = list(dict.fromkeys(targets_of(directions)))

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
        pair = f"'{shown(origin)}' => '{deepl_code(to)}'"
        raise Refusal(400, "no_direction", f"Unsupported language pair: {pair}.")

    def sources(self) -> list[dict[str, Any]]:
        """Return the source languages, as DeepL lists them."""
        listed = {shown(code): self._names[code].partition(" (")[0] for code in self._sources}
        return [{"language": code, "name": name} for code, name in sorted(listed.items())]

    def targets(self) -> list[dict[str, Any]]:
        """Return the target languages, as DeepL lists them."""
        listed: dict[str, str] = {}
        for code in self._targets:
            listed |= _SHOWN.get(deepl_code(code), {deepl_code(code): self._names[code]})
        return [
            {"language": code, "name": name, "supports_formality": False}
            for code, name in sorted(listed.items())
        ]


def shown(source: str) -> str:
    """DeepL's code for a source language."""
    return deepl_code(source).partition("-")[0]


def _served(found: str | None, field: str) -> str:
    if found is None:
        raise unsupported(field, "no_language")
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
    "glossary_ids",
    "style_id",
    "translation_memory_id",
    "custom_instructions",
)
"""Fields that would change translations, if there were what they refer to."""


def unsupported(name: str, label: str = "value") -> Refusal:
    """The refusal of a field's value."""
    return Refusal(400, label, f"Value for '{name}' not supported.")


async def read_values(request: Request) -> Values:
    """Read the fields that have a value: of a JSON object or a form, and of the query."""
    found = _fields(request.query_params)
    if media_type(request) == "application/json":
        found |= await read_object(request, _not_json) if await request.body() else {}
    else:
        found |= _fields(ImmutableMultiDict(await read_form(request)))
    return {name: value for name, value in found.items() if value not in (None, "")}


def _fields(given: ImmutableMultiDict[str, str]) -> dict[str, Any]:
    return {name: given.getlist(name) if name == "text" else given.getlist(name)[0] for name in given}


def _not_json(reason: str) -> Refusal:
    because = f" ({reason})" if reason else ""
    return Refusal(400, "not_json", f"Bad request. Reason: the body is not a JSON object{because}.")


def _require_supported(values: Values) -> None:
    """Refuse values that DeepL does not know, and features that are not served; it ignores other fields."""
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise unsupported(name)
    if values.get("formality") in ("less", "more"):
        raise Refusal(400, "formality", "'formality' is not supported for given 'target_lang'.")
    for name in _NOT_SERVED:
        if name in values:
            raise Refusal(400, "not_served", f"'{name}' is not supported: this server only translates texts.")


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


def _dialect(values: Values) -> Dialect | None:
    names = {
        field: _names(values, field) for field in ("ignore_tags", "splitting_tags", "non_splitting_tags")
    }
    if not (handling := values.get("tag_handling")):
        return None
    dialect = DIALECTS[handling]
    return dialect._replace(
        kept=dialect.kept | names["ignore_tags"],
        splitting=dialect.splitting | names["splitting_tags"],
        not_splitting=names["non_splitting_tags"],
        has_outline=dialect.has_outline and values.get("outline_detection") not in _OFF,
        keeps_lines=handling == "xml" and values.get("split_sentences") != "nonewlines",
    )


def _names(values: Values, field: str) -> frozenset[str]:
    given = values.get(field, [])
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise unsupported(field)
    return frozenset(name.strip().lower() for name in names)


_UNLIMITED: Final = 1_000_000_000_000
"""The limit of characters that DeepL names if there is none."""
_LINE_BREAK: Final = re.compile(r"(?<=\S)[ \t]*\r?\n[ \t]*(?=\S)")
"""A line break within a paragraph."""
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_NO_ADDITIONS: Final = "Not found: this server has no rephrasing or other additions to translation."
_STATUS: Final = {401: 403, 422: 400}


def routes(service: Service) -> APIRouter:
    """The endpoints."""
    endpoints = _Endpoints(service)
    answers = [
        (["POST"], "/translate", endpoints.translate),
        (["GET", "POST"], "/languages", endpoints.languages),
        (["GET", "POST"], "/usage", endpoints.usage),
        *glossary_answers(service, read_values),
        *document_answers(service, read_values, endpoints.document_options),
        (_METHODS, "/{path:path}", always(Refusal(404, "not_served", _NO_ADDITIONS))),
    ]
    return router_of(answers, prefix="/v2")


def error_response(refusal: Refusal) -> JSONResponse:
    """The response for a refusal, in DeepL's form."""
    status = _STATUS.get(refusal.status, refusal.status)
    return JSONResponse({"message": refusal.message}, status, refusal.headers)


PROTOCOL: Final = Protocol(
    "deepl",
    routes,
    error_response,
    error_paths=("/v2", "/v3"),
    file_paths=frozenset({"/v2/document"}),
    light_paths=("/v2/document/",),
    token_scheme="DeepL-Auth-Key",
)


class _Endpoints:
    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.settings
        self._languages = Languages(service.languages, service.directions)

    async def translate(self, request: Request) -> dict[str, Any]:
        _require_supported(values := await read_values(request))
        texts = _texts(values.get("text"), self._settings.most_characters)
        source, target = values.get("source_lang"), values.get("target_lang", "")
        for name, code in (("source_lang", source), ("target_lang", target)):
            if code is not None and not isinstance(code, str):
                raise unsupported(name)
        dialect = _dialect(values)
        self._languages.target(target)  # is served
        passages = await asyncio.to_thread(_passages, texts, dialect, values)
        directions = await self._directions(passages.parts, source, target)
        glossary = await self._glossary(values, directions)
        translated = [*texts]
        for direction in filter(lambda each: each.models, dict.fromkeys(directions)):
            numbers = [number for number, its in enumerate(directions) if its == direction]
            parts = [part.text for number in numbers for part in passages.parts[number]]
            options = RequestOptions(
                direction.source, direction.target, glossary=glossary, links=passages.need_links
            )
            found = iter(await self._service.translate_all(parts, options))
            for number in numbers:
                best = [next(found).translations[0] for _ in passages.parts[number]]
                of_parts = [(each.text, each.links) for each in best]
                translated[number] = await asyncio.to_thread(passages.joined, number, of_parts)
        results: list[dict[str, Any]] = []
        for original, text, direction in zip(texts, translated, directions, strict=True):
            results.append({"detected_source_language": shown(direction.source), "text": text})
            if values.get("show_billed_characters") in _ON:
                results[-1]["billed_characters"] = len(original)
            if model_type := values.get("model_type"):  # of which a server like this has only one
                results[-1]["model_type_used"] = model_type.removeprefix("prefer_")
        return {"translations": results}

    async def document_options(self, values: Values) -> RequestOptions:
        """The options of the translation of a document."""
        _require_supported(values)
        source, target = values.get("source_lang"), values.get("target_lang", "")
        if source is None:
            if "glossary_id" in values:
                raise Refusal(400, "value", "Value for 'source_lang' not specified, which a glossary needs.")
            return RequestOptions(AUTO, self._languages.target(target))
        direction = self._languages.direction(source, target)
        glossary = await self._glossary(values, [direction])
        return RequestOptions(direction.source, direction.target, glossary=glossary)

    async def _glossary(self, values: Values, directions: Sequence[Direction]) -> Glossary | None:
        """The glossary that a request names, which must be of its direction."""
        if "glossary_id" not in values:
            return None
        if self._service.glossaries is None:
            message = "'glossary_id' is not supported: this server stores no glossaries."
            raise Refusal(400, "not_served", message)
        if "source_lang" not in values:
            raise Refusal(400, "value", "Value for 'source_lang' not specified, which a glossary needs.")
        folder, info = stored_glossary(self._service, str(values["glossary_id"]))
        languages = info.source_lang, info.target_lang
        if any(glossary_languages(each) != languages or len(each.models) != 1 for each in directions):
            raise Refusal(400, "glossary", "The glossary is not of this source and target language.")
        return await in_folder(folder.glossary, info.glossary_id)

    async def languages(self, request: Request) -> list[dict[str, Any]]:
        kind = (await read_values(request)).get("type", "source")
        if kind not in ("source", "target"):
            message = "Parameter 'type' is invalid. 'source' and 'target' are valid values."
            raise Refusal(400, "value", message)
        return self._languages.targets() if kind == "target" else self._languages.sources()

    async def usage(self, _: Request) -> dict[str, int]:
        return {"character_count": self._service.metrics.num_characters, "character_limit": _UNLIMITED}

    async def _directions(
        self, passages: Sequence[Sequence[MarkedText]], source: str | None, target: str
    ) -> list[Direction]:
        """The direction of each text, whose source language is given or detected."""
        if source is not None:
            return [self._languages.direction(source, target)] * len(passages)

        def detect() -> list[Direction]:
            texts = [
                "\n".join(part.text for part in each)[: self._settings.most_characters] for each in passages
            ]
            return [self._service.route(text, target).direction for text in texts]

        return await asyncio.to_thread(detect)  # the first time, it takes a second


def _passages(texts: Sequence[str], dialect: Dialect | None, values: Values) -> Passages:
    """The texts of a request; a text that is to be XML, and is not well-formed, is refused."""
    for number, text in enumerate(texts, start=1):
        if values.get("tag_handling") == "xml" and (fault := xml_fault(text)):
            message = (
                f"Tag handling parsing failed, please check input. Text {number}, {fault}; "
                "write & and < as &amp; and &lt; and close all tags, or set 'tag_handling' to 'html'."
            )
            raise Refusal(400, "xml", message)
    if not dialect and values.get("split_sentences") == "nonewlines":  # a sentence goes on after a line break
        texts = [_LINE_BREAK.sub(" ", text) for text in texts]
    return Passages(texts, dialect)
