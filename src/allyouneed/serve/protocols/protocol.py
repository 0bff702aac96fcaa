"""A protocol of the server as one record, the form of its errors, and the fields of its forms."""

import codecs
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from allyouneed.serve.exchanges import current
from allyouneed.serve.refusals import INTERNAL, Form, Refusal, own_form, wrong_values
from allyouneed.serve.server_settings import MOST_FIELDS, ServerSettings
from allyouneed.serve.service import Service


@dataclass(frozen=True)
class Protocol:
    """A protocol of the server."""

    name: str
    routes: Callable[[Service, ServerSettings], APIRouter]
    """Makes the endpoints; they raise `Refusal`."""
    error_response: Form = own_form
    """Makes the response for a refusal; may choose another status."""
    error_paths: tuple[str, ...] = ()
    """Paths whose errors have this form, as have those of the paths below them."""
    open_paths: frozenset[str] = frozenset()
    """Paths that need no token."""
    token_scheme: str = "bearer"
    """Scheme of the Authorization header with the token, in small letters."""
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
    """Answer refusals, unknown paths, wrong methods, wrong values and unexpected exceptions in one form."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return forms.response(request.url.path, error)

    async def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        label, message = _MEANINGS.get(error.status_code, ("http", "the request is refused"))
        return await refused(request, Refusal(error.status_code, label, message, error.headers))

    async def wrong(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await refused(request, wrong_values(error.errors()))

    async def failed(request: Request, error: Exception) -> Response:
        return await refused(request, INTERNAL)

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, not_routed)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(Exception, failed)


_CHARSETS: Final = frozenset({"utf-8", "ascii", "iso8859-1"})


async def read_form(request: Request) -> list[tuple[str, str]]:
    """The names and texts of a form's fields, in order; files are left out.

    Refuses bodies that are not the form that they should be (400), or in an unusual encoding (415).
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
"""Answers a request with a JSON value or a response, or raises a `Refusal`."""


def router_of(answers: Sequence[tuple[list[str], str, Answer]], prefix: str = "") -> APIRouter:
    """A router of endpoints by methods and path, which are not in the schema."""
    router = APIRouter(prefix=prefix)
    for methods, path, answer in answers:
        router.add_api_route(path, _in_json(answer), methods=methods, include_in_schema=False)
    return router


def _in_json(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        answered = await answer(request)
        return answered if isinstance(answered, Response) else JSONResponse(answered)

    return send


def always(content: Any) -> Answer:
    """Answers with the same content each time."""

    async def answer(_: Request) -> Any:
        return content

    return answer
