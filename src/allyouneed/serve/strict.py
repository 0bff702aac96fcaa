"""Routes that take JSON as the standard has it, and say what is wrong without quoting the user's text."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_FIELDS
from allyouneed.serve.wrong_values import field_names, wrong_values

_JSON = re.compile(r'application/json *(; *charset="?utf-8"? *)?', re.IGNORECASE)


class Body(BaseModel):
    """A request's JSON body: unknown fields are refused, and no value is converted to another type.

    Strict values are of JSON's types: declare lists, not tuples, and literals, not enumerations.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


class StrictRoute(APIRoute):
    """A route whose request body, if it takes one in JSON, has to be standard JSON of that media type.

    Its handlers raise `Refusal`: 415 for another media type, 400 for what is not JSON, 422 for wrong values.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of requests to this route."""
        handle = super().get_route_handler()
        takes_json = self.body_field and not isinstance(self.body_field.field_info, params.Form)
        names = field_names(self.body_field.field_info.annotation) if self.body_field else frozenset()

        async def handle_strictly(request: Request) -> Response:
            if takes_json:
                require_json_type(request.headers.getlist("content-type"))
                request._json = parse_body(await request.body())  # what `request.json()` returns
            try:
                return await handle(request)
            except RequestValidationError as error:
                raise wrong_values(error.errors(), names) from None

        return handle_strictly


def require_json_type(content_types: list[str]) -> None:
    """Refuse a body that is not declared as JSON in UTF-8."""
    if len(content_types) != 1 or not _JSON.fullmatch(content_types[0].strip()):
        raise Refusal(415, "media_type", "the body is not JSON in UTF-8; send Content-Type: application/json")


def parse_body(body: bytes) -> Any:
    """The value of a JSON body."""
    try:
        return parse_value(body.decode(), MOST_FIELDS)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8"
    except JSONFault as fault:
        reason = fault.reason if body else "the body is empty"
    raise Refusal(400, "json", f"not JSON: {reason}")
