"""Refusals: their reasons, the server's own form of them, and the values that are refused."""

import difflib
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from allyouneed.config.settings import WORDS
from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.serve.request_options import MOST_FIELDS


class Refusal(Exception):  # noqa: N818 - not always an error
    """A request that is refused or has failed.

    Args:
        status: HTTP status code.
        label: Short name of the reason for programs, such as "queue_full".
        message: What is wrong and what to do, in one line; quotes short names at most, no text of the user.
        headers: Headers of the response, such as `Retry-After`.
        details: What is wrong with each field, if the request's values are.
    """

    def __init__(
        self,
        status: int,
        label: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        details: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.label, self.message = status, label, message
        self.headers = dict(headers or {})
        self.details = tuple(details)


_WORDS = WORDS | {
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be a name of letters, digits, '.', '_' and '-'",
    "too_long": "must have at most {max_length} values",
    "model_attributes_type": "must be an object",
}
"""pydantic's types of errors that requests can provoke -> what is wrong."""
_MOST_DETAILS = 20
_MOST_ERRORS = 100  # that are looked at: a body has room for a hundred thousand


_NAME = re.compile(r"[\w.-]{1,64}")
"""Names of unknown fields that are repeated in messages; others may be texts."""


def wrong_values(errors: Sequence[Mapping[str, Any]], names: Set[str]) -> Refusal:
    """The refusal of a request whose values pydantic found to be wrong.

    Paths show only the `names` of the body's fields, and short names of unknown ones.
    """
    problems: dict[tuple[str | int, ...], dict[str, str]] = {}
    for error in errors[:_MOST_ERRORS]:
        # without "body", and without the alternatives of a type, which pydantic names too
        path = tuple(part for part in error["loc"][1:] if isinstance(part, int) or part in names)
        if error["type"] == "extra_forbidden" and _NAME.fullmatch(unknown := str(error["loc"][-1])):
            path = unknown, *path
        problems.setdefault(path, {})[error["type"]] = _problem(error, names, is_named=bool(path))
    details = [
        {"path": list(path), "message": _joined(found)}
        for path, found in list(problems.items())[:_MOST_DETAILS]
    ]
    # an unknown field is what is meant by a missing one; then a value in a list rather than the list
    first = max(details, key=lambda each: ("unknown" in str(each["message"]), len(each["path"])))
    place = ".".join(map(str, first["path"])) or "the body"
    return Refusal(422, "values", f"{place} {first['message']}", details=details)


def _joined(found: Mapping[str, str]) -> str:
    """The errors of a value in words; where one of its types fits, those within that type."""
    fitting = [each for each in found if each not in ("string_type", "list_type")] or list(found)
    first, *others = (found[each] for each in fitting)
    return " or ".join([first, *(each.removeprefix("must be ") for each in others)])


def _problem(error: Mapping[str, Any], names: Set[str], *, is_named: bool) -> str:
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1])[:64], sorted(names), n=1)
        known = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(names))}"
        return f"{'is' if is_named else 'has'} an unknown field; {known}"
    words = _WORDS.get(error["type"], "has a wrong value")
    return words.format_map(error.get("ctx", {}))


Form = Callable[[Refusal], Response]
"""Makes the response for a refusal; may choose another status."""


def own_form(refusal: Refusal) -> Response:
    """The server's own form: `{"error": {"label": .., "message": .., "details"?: ..}}`."""
    error: dict[str, Any] = {"label": refusal.label, "message": refusal.message}
    if refusal.details:
        error["details"] = refusal.details
    return JSONResponse({"error": error}, refusal.status, refusal.headers)


INTERNAL = Refusal(500, "internal", "the server failed; its log says where")
"""The answer if an unexpected exception is raised."""


_JSON = re.compile(r'application/json *(; *charset="?utf-8"? *)?', re.IGNORECASE)


class Body(BaseModel):
    """A request's JSON body: unknown fields are refused, and no value is converted to another type.

    Strict values are of JSON's types: declare lists, not tuples, and literals, not enumerations.
    """

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class StrictRoute(APIRoute):
    """A route whose request body, if it takes one in JSON, has to be standard JSON of that media type.

    Its handlers raise `Refusal`: 415 for another media type, 400 for what is not JSON, 422 for wrong values.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of requests to this route."""
        handle = super().get_route_handler()
        body: Any = self.body_field and self.body_field.field_info.annotation  # a flat `Body`
        names = frozenset(body.model_fields) if body else frozenset()

        async def handle_strictly(request: Request) -> Response:
            if request.query_params:
                [name, *_] = request.query_params
                shown = name if _NAME.fullmatch(name) else "what the query has"
                message = f"{shown} has no effect in the query; send options in the JSON body"
                raise Refusal(422, "query", message)
            if body:
                request._json = await _read_json(request)  # what `request.json()` returns
            try:
                return await handle(request)
            except RequestValidationError as error:
                raise wrong_values(error.errors(), names) from None

        return handle_strictly


async def _read_json(request: Request) -> Any:
    """The value of a body that is declared as JSON in UTF-8."""
    types = request.headers.getlist("content-type")
    if len(types) != 1 or not _JSON.fullmatch(types[0].strip()):
        raise Refusal(415, "media_type", "the body is not JSON in UTF-8; send Content-Type: application/json")
    body = await request.body()
    try:
        return parse_value(body.decode(), MOST_FIELDS)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8"
    except JSONFault as fault:
        reason = fault.reason if body else "the body is empty"
    raise Refusal(400, "json", f"not JSON: {reason}")
