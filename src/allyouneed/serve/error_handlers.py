"""Handlers that answer every error of an application in the form of its path."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from allyouneed.serve.error_forms import ErrorForms
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.wrong_values import wrong_values

_MEANINGS = {
    400: ("request", "the request cannot be read"),
    404: ("not_found", "there is nothing at this path"),
    405: ("method_not_allowed", "this path does not take this method"),
    413: ("too_large", "the request is too large"),
}

INTERNAL = Refusal(500, "internal", "the server failed; its log says where")
"""What a client is told of an exception that nobody expected."""


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
