"""The documents of DeepL's protocol: sent, asked after, and fetched once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from allyouneed.serve.documents import Documents, SentDocument
from allyouneed.serve.protocols.protocol import Answer, file_response, read_upload
from allyouneed.serve.refusals import Refusal
from allyouneed.serve.request_options import RequestOptions
from allyouneed.serve.service import Service

_NO_DOCUMENTS: Final = "Not found: this server takes no documents; start it with --files."

Read = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Reads the fields of a request."""
Choose = Callable[[Mapping[str, Any]], Awaitable[RequestOptions]]
"""Makes the options of a translation from fields."""


def document_answers(service: Service, read: Read, choose: Choose) -> Sequence[tuple[list[str], str, Answer]]:
    """The endpoints."""
    endpoints = _Endpoints(service, read, choose)
    return [
        (["POST"], "/document", endpoints.send),
        (["POST", "GET"], "/document/{document_id}", endpoints.status),
        (["POST", "GET"], "/document/{document_id}/result", endpoints.result),
    ]


class _Endpoints:
    def __init__(self, service: Service, read: Read, choose: Choose) -> None:
        self._service, self._read, self._choose = service, read, choose

    @property
    def _documents(self) -> Documents:
        if self._service.documents is None:
            raise Refusal(404, "not_served", _NO_DOCUMENTS)
        return self._service.documents

    async def send(self, request: Request) -> dict[str, Any]:
        documents = self._documents
        given, upload = await read_upload(request)
        fields = {name: value for name, value in given if value}
        if upload is None:
            raise Refusal(400, "no_file", "Invalid file data.")
        name, content = fields.get("filename", upload[0]), upload[1]
        if fields.get("output_format", Path(name).suffix[1:]).lower() != Path(name).suffix[1:].lower():
            raise Refusal(400, "value", "Value for 'output_format' not supported.")
        document = documents.begin(name, content, await self._choose(fields))
        return {"document_id": document.document_id, "document_key": document.key}

    async def status(self, request: Request) -> dict[str, Any]:
        documents, document = await self._found(request)
        status: dict[str, Any] = {"document_id": document.document_id}
        if document.error:
            documents.forget(document)
            return {**status, "status": "error", "error_message": document.error.message}
        if not document.has_ended:
            state = "translating" if document.num_done else "queued"
            return {**status, "status": state, "seconds_remaining": document.seconds_remaining}
        return {**status, "status": "done", "billed_characters": document.num_characters}

    async def result(self, request: Request) -> Response:
        documents, document = await self._found(request)
        if not document.has_ended or document.error:
            raise Refusal(503, "not_ready", "The document is not translated yet.")
        return file_response(document.name, await asyncio.to_thread(documents.take, document))

    async def _found(self, request: Request) -> tuple[Documents, SentDocument]:
        documents, key = self._documents, (await self._read(request)).get("document_key")
        document = documents.get(request.path_params["document_id"], str(key))
        if document is None:
            raise Refusal(404, "no_document", "Document not found.")
        return documents, document
