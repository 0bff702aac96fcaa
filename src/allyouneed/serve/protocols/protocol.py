"""A protocol of the server as one record, the form of its errors, and the fields of its requests."""

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, FastAPI, Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.files.formats import format_of
from allyouneed.serve.exchanges import current
from allyouneed.serve.refusals import INTERNAL, Form, Refusal, own_form
from allyouneed.serve.request_options import MOST_FIELDS
from allyouneed.serve.service import Service


@dataclass(frozen=True)
class Protocol:
    """A protocol of the server."""

    name: str
    routes: Callable[[Service], APIRouter]
    """Makes the endpoints; they raise `Refusal`."""
    error_response: Form = own_form
    """Makes the response for a refusal; may choose another status."""
    error_paths: tuple[str, ...] = ()
    """Paths whose errors have this form, as have those of the paths below them."""
    open_paths: frozenset[str] = frozenset()
    """Paths that need no token, and beginnings of such paths, which end in a slash."""
    file_paths: frozenset[str] = frozenset()
    """Paths that files to be translated are sent to, which the server may be told to take."""
    recording_paths: frozenset[str] = frozenset()
    """Paths that recordings are sent to."""
    light_paths: tuple[str, ...] = ()
    """Beginnings of paths that need no model; they are answered however busy the server is."""
    token_scheme: str = "Bearer"
    """Scheme of the Authorization header with the token."""
    token_fields: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """"http" or "websocket" and a path -> field of the query or body that may have the token, too."""


class ErrorForms:
    """The form of refusals by path: of the protocol with the longest fitting path, else the server's own."""

    def __init__(self, protocols: Sequence[Protocol] = ()) -> None:
        forms = [(path, each.error_response) for each in protocols for path in each.error_paths]
        self._forms = sorted(forms, key=lambda item: -len(item[0]))

    def response(self, path: str, refusal: Refusal) -> Response:
        """The response to a refused request, whose exchange notes the reason."""
        current().error = refusal.label or "request"
        fitting = (form for prefix, form in self._forms if path == prefix or path.startswith(f"{prefix}/"))
        response = next(fitting, own_form)(refusal)
        for name, value in refusal.headers.items():
            response.headers.setdefault(name, value)
        return response


_MEANINGS = {
    400: ("request", "the request cannot be read"),
    404: ("not_found", "there is nothing at this path"),
    405: ("method_not_allowed", "this path does not take this method"),
    413: ("too_large", "the request is too large"),
}


def answer_errors(app: FastAPI, forms: ErrorForms) -> None:
    """Answer refusals, unknown paths, wrong methods and unexpected exceptions in one form."""

    async def answer(request: Request, error: Exception) -> Response:
        refusal = error if isinstance(error, Refusal) else INTERNAL
        if isinstance(error, HTTPException):
            label, message = _MEANINGS.get(error.status_code, ("http", "the request is refused"))
            refusal = Refusal(error.status_code, label, message, error.headers)
        return forms.response(request.url.path, refusal)

    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def media_type(request: Request) -> str:
    """The type of a request's body, in small letters and without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def read_object(request: Request, refuse: Callable[[str], Refusal]) -> dict[str, Any]:
    """The JSON object of a request; `refuse` makes the refusal of another body from the reason."""
    try:
        found = parse_value((await request.body()).decode(), MOST_FIELDS)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8"
    except JSONFault as fault:
        reason = str(fault)
    else:
        if isinstance(found, dict):
            return found
        reason = "an object is wanted"
    raise refuse(reason)


_CHARSETS: Final = frozenset({"utf-8", "ascii", "iso8859-1"})


async def read_form(request: Request) -> list[tuple[str, str]]:
    """The names and texts of a form's fields, in order; files are left out. See `read_upload`."""
    return (await read_upload(request))[0]


Upload = tuple[str, bytes]
"""The name and the content of a file."""


async def read_upload(request: Request) -> tuple[list[tuple[str, str]], Upload | None]:
    """The names and texts of a form's fields, in order, and the file in its field `file`, if there is one.

    Refuses bodies that are not the form that they should be (400), or in an unusual encoding (415).
    """
    kind, parameters = parse_options_header(request.headers.get("Content-Type", ""))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    try:
        is_known = codecs.lookup(charset).name in _CHARSETS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        raise Refusal(415, "charset", "The form is in an encoding that is not supported; send UTF-8.")
    try:
        if kind == b"application/x-www-form-urlencoded":
            text = (await request.body()).decode(charset)
            # Starlette would take bytes that are not escaped for Latin-1
            strict: dict[str, Any] = {"encoding": charset, "errors": "strict", "max_num_fields": MOST_FIELDS}
            return parse_qsl(text, keep_blank_values=True, **strict), None
        async with request.form(max_files=1) as form:
            fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
            file = form.get("file")
            if not isinstance(file, UploadFile):
                return fields, None
            return fields, (file.filename or "", await file.read())
    except (HTTPException, ValueError):
        raise Refusal(400, "not_a_form", "The form in the request cannot be read.") from None


def file_response(name: str, content: bytes) -> Response:
    """The response with a translated file, to be stored under the name that it was sent with."""
    quoted = quote(Path(name).name)
    return Response(
        content,
        media_type=format_of(name).media_type,
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quoted}"},
    )


async def streamed(events: AsyncIterator[str], last: Callable[[Refusal], str]) -> StreamingResponse:
    """The response of server-sent events; a refusal before the first is an answer with its status.

    A later refusal is told by a `last` event.
    """
    first = await anext(events)

    async def sending() -> AsyncIterator[str]:
        yield first
        try:
            async for each in events:
                yield each
        except Refusal as refusal:
            current().error = refusal.label
            yield last(refusal)

    return StreamingResponse(sending(), media_type="text/event-stream")


Answer = Callable[[Request], Awaitable[Any]]
"""Answers a request with a JSON value or a response, or raises a `Refusal`."""


def router_of(answers: Sequence[tuple[list[str], str, Answer]], prefix: str = "") -> APIRouter:
    """A router of endpoints by methods and path, which are not in the schema."""
    router = APIRouter(prefix=prefix)

    def add(methods: list[str], path: str, answer: Answer) -> None:
        async def send(request: Request) -> Response:
            answered = await answer(request)
            return answered if isinstance(answered, Response) else JSONResponse(answered)

        router.add_api_route(path, send, methods=methods, include_in_schema=False)

    for each in answers:
        add(*each)
    return router


def always(content: Any) -> Answer:
    """Answers with the same content each time, or raises it if it is a refusal."""

    async def answer(_: Request) -> Any:
        if isinstance(content, Refusal):  # made anew: one that is raised again keeps the frames of before
            raise Refusal(content.status, content.label, content.message)
        return content

    return answer
