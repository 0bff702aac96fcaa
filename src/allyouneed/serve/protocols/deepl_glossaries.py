"""The glossaries of DeepL's protocol: created, listed, read and deleted by clients."""

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.responses import JSONResponse, Response

from allyouneed.errors import DataError, DiskError
from allyouneed.language_codes import spoken_language, standard_code
from allyouneed.serve.directions import Direction
from allyouneed.serve.glossaries import GlossaryFolder, GlossaryInfo
from allyouneed.serve.protocols.protocol import Answer
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.service import Service

_LONGEST_NAME: Final = 1_024
_NO_FOLDER: Final = "Not found: this server stores no glossaries; start it with --glossaries FOLDER."
_FORMATS: Final = ("tsv", "csv")

Result = TypeVar("Result")
Read = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Reads the fields of a request."""


def deepl_code(code: str) -> str:
    """DeepL's code for a language."""
    return "NB" if spoken_language(code) == "no" else standard_code(code).upper()


def glossary_languages(direction: Direction) -> tuple[str, str]:
    """The languages that a glossary of a direction has: without regions, in small letters."""
    return _plain(direction.source), _plain(direction.target)


def _plain(code: str) -> str:
    return deepl_code(code).partition("-")[0].lower()


def stored_glossary(service: Service, glossary_id: str) -> tuple[GlossaryFolder, GlossaryInfo]:
    """The glossary with an id, and the folder that it is in; refuses others."""
    folder = service.glossaries
    if folder is None or (info := folder.get(glossary_id)) is None:
        raise Refusal(404, "no_glossary", "Glossary not found." if folder else _NO_FOLDER)
    return folder, info


def glossary_answers(service: Service, read: Read) -> Sequence[tuple[list[str], str, Answer]]:
    """The endpoints; `read` reads the fields of a request."""
    endpoints = _Endpoints(service, read)
    return [
        (["GET"], "/glossaries", endpoints.all),
        (["POST"], "/glossaries", endpoints.create),
        (["GET"], "/glossaries/{glossary_id}", endpoints.one),
        (["DELETE"], "/glossaries/{glossary_id}", endpoints.delete),
        (["GET"], "/glossaries/{glossary_id}/entries", endpoints.entries),
        (["GET"], "/glossary-language-pairs", endpoints.pairs),
    ]


class _Endpoints:
    def __init__(self, service: Service, read: Read) -> None:
        self._service, self._read = service, read
        direct = [each for each in service.directions if len(each.models) == 1]
        self._pairs = list(dict.fromkeys(glossary_languages(each) for each in direct if not each.languages))
        self._of_several = [{_plain(code) for code in each.languages} for each in direct if each.languages]

    async def pairs(self, _: Request) -> dict[str, Any]:
        pairs = self._pairs if self._service.glossaries else []
        return {"supported_languages": [{"source_lang": one, "target_lang": other} for one, other in pairs]}

    async def all(self, _: Request) -> dict[str, Any]:
        folder = self._service.glossaries
        return {"glossaries": [_shown(info) for info in folder.all()] if folder else []}

    async def create(self, request: Request) -> Response:
        if (folder := self._service.glossaries) is None:
            raise Refusal(404, "not_served", _NO_FOLDER)
        values = await self._read(request)
        fields = ("name", "source_lang", "target_lang", "entries")
        name, source, target, entries = (_text(values, field) for field in fields)
        languages = source.lower().partition("-")[0], target.lower().partition("-")[0]
        is_between = any({*languages} <= codes for codes in self._of_several) and len({*languages}) == 2
        if languages not in self._pairs and not is_between:
            raise Refusal(400, "value", "Unsupported glossary source and target language pair.")
        if len(name) > _LONGEST_NAME:
            raise Refusal(400, "value", f"Value for 'name' is longer than {_LONGEST_NAME:,} characters.")
        pairs = _pairs(entries, values.get("entries_format", "tsv"))
        try:
            info = await asyncio.to_thread(folder.create, name, languages, pairs)
        except DataError as error:
            raise Refusal(
                400, "glossary", f"Invalid glossary entries provided: {error.messages[0]}"
            ) from None
        except DiskError:
            raise Refusal(
                507, "disk", "The glossary cannot be stored: the server's disk is full or fails."
            ) from None
        return JSONResponse(_shown(info), 201)

    async def one(self, request: Request) -> dict[str, Any]:
        return _shown(stored_glossary(self._service, request.path_params["glossary_id"])[1])

    async def delete(self, request: Request) -> Response:
        folder, info = stored_glossary(self._service, request.path_params["glossary_id"])
        await in_folder(folder.delete, info.glossary_id)
        return Response(status_code=204)

    async def entries(self, request: Request) -> Response:
        folder, info = stored_glossary(self._service, request.path_params["glossary_id"])
        entries = await in_folder(folder.entries, info.glossary_id)
        lines = "\n".join("\t".join(entry) for entry in entries)
        return Response(lines, media_type="text/tab-separated-values")


async def in_folder(do: Callable[[str], Result], glossary_id: str) -> Result:
    """Do something with the file of a glossary, which another client may just have deleted."""
    try:
        return await asyncio.to_thread(do, glossary_id)
    except (DataError, DiskError, KeyError):
        raise Refusal(404, "no_glossary", "Glossary not found.") from None


def _shown(info: GlossaryInfo) -> dict[str, Any]:
    return {"ready": True, **asdict(info)}


def _text(values: Mapping[str, Any], field: str) -> str:
    if not isinstance(value := values.get(field), str) or not value.strip():
        raise Refusal(400, "value", f"Parameter '{field}' not specified.")
    return value


def _pairs(entries: str, entries_format: object) -> list[tuple[str, str]]:
    """The sources and targets of entries; further columns of CSV, the languages, are left out."""
    if entries_format not in _FORMATS:
        raise Refusal(400, "value", "Value for 'entries_format' not supported; it is tsv or csv.")
    if entries_format == "csv":
        try:
            rows = [row[:2] for row in csv.reader(io.StringIO(entries, newline="")) if row]
        except csv.Error as error:
            raise Refusal(400, "glossary", f"Invalid glossary entries provided: {error}.") from None
    else:
        rows = [line.rstrip("\r").split("\t") for line in entries.split("\n") if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) != 2 or any(mark in cell.strip() for cell in row for mark in "\t\r\n"):
            message = f"Invalid glossary entries provided: entry {number} is not a source and a target."
            raise Refusal(400, "glossary", message)
    return [(source.strip(), target.strip()) for source, target in rows]
