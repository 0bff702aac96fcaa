"""Endpoints that read forms, and endpoints whose errors a protocol words itself."""

import codecs
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import JSONResponse
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException

from allyouneed.serve.errors import Refusal
from allyouneed.serve.exchanges import current
from allyouneed.serve.server_settings import MOST_FIELDS

_CHARSETS: Final = frozenset({"utf-8", "ascii", "iso8859-1"})


async def read_form(request: Request) -> list[tuple[str, str]]:
    """The names and texts of a form's fields, in order; files are left out.

    Raises:
        Refusal: The body is not the form that its content type says (400), or in an unusual encoding (415).
    """
    kind, parameters = parse_options_header(request.headers.get("Content-Type", ""))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if not _is_known(charset):
        raise Refusal(415, "charset", "The form is in an encoding that is not supported; send UTF-8.")
    try:
        if kind == b"application/x-www-form-urlencoded":
            return _decoded((await request.body()).decode(charset), charset)
        async with request.form(max_files=1) as form:
            return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    except (HTTPException, ValueError):
        raise Refusal(400, "not_a_form", "The form in the request cannot be read.") from None


def _decoded(form: str, charset: str) -> list[tuple[str, str]]:
    """The fields; Starlette would take bytes that are not escaped for Latin-1."""
    strict: dict[str, Any] = {"encoding": charset, "errors": "strict", "max_num_fields": MOST_FIELDS}
    return parse_qsl(form, keep_blank_values=True, **strict)


def _is_known(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name in _CHARSETS
    except (LookupError, ValueError):
        return False


Answer = Callable[[Request], Awaitable[Any]]
"""Answers a request with a JSON value, or raises a `Refusal`."""


def in_json(
    answer: Answer, worded: Callable[[Refusal], JSONResponse]
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """An endpoint that sends what `answer` returns, or its refusal in the protocol's words."""

    async def send(request: Request) -> JSONResponse:
        try:
            return JSONResponse(await answer(request))
        except Refusal as refusal:
            current().error = refusal.label
            return worded(refusal)

    return send


def always(content: Any) -> Answer:
    """Answers with the same content each time."""

    async def answer(_: Request) -> Any:
        return content

    return answer
