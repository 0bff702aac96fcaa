"""The token of a request, wherever the clients of each protocol send it."""

import contextlib
import hmac
import io
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.server_settings import MOST_FIELDS

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/api/models"})
"""Paths that need no token, besides those below `/web/`."""
_WITH_FIELDS = frozenset({"/translate", "/detect"})
"""Paths whose queries and bodies may have the token, as the clients of LibreTranslate and Marian send it."""
_MOST_PARTS = 100
"""Number of parts of a form above which no token is looked for: to read many takes seconds."""
_SCHEMES = ("bearer ", "deepl-auth-key ")


def require_token(token: str, scope: Mapping[str, Any], headers: Headers, body: bytes) -> None:
    """Refuse a request without the token.

    Args:
        token: The token that clients must send.
        scope: Scope of the request.
        headers: Its headers.
        body: Its body.

    Raises:
        Refusal: The token is missing or wrong (401).
    """
    found = False
    for given in _tokens(scope, headers, body):
        if hmac.compare_digest(given.encode(errors="replace"), token.encode()):
            return
        found = True
    label, what = ("wrong_token", "the token is wrong") if found else ("no_token", "there is no token")
    raise Refusal(
        401,
        label,
        f"{what}; send Authorization: Bearer TOKEN",
        {"WWW-Authenticate": 'Bearer realm="allyouneed"'},
    )


def _tokens(scope: Mapping[str, Any], headers: Headers, body: bytes) -> Iterator[str]:
    authorization = headers.get("authorization", "")
    for scheme in _SCHEMES:
        if authorization.lower().startswith(scheme):
            yield authorization[len(scheme) :].strip()
    if "x-api-key" in headers:
        yield headers["x-api-key"]
    if scope["path"] in _WITH_FIELDS:
        name = "token" if scope["type"] == "websocket" else "api_key"
        fields = _pairs(scope["query_string"].decode("latin-1"))
        if scope["type"] == "http":
            fields |= _fields(headers.get("content-type", ""), body)
        if fields.get(name):  # an empty one is none
            yield fields[name]


def _fields(content_type: str, body: bytes) -> dict[str, str]:
    """The text fields of a body in JSON or of a form."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return _multipart_fields(content_type, body)
    if kind == "application/x-www-form-urlencoded":
        return _pairs(body.decode(errors="replace"))
    try:
        value = parse_value(body.decode(), MOST_FIELDS)
    except (JSONFault, UnicodeDecodeError):
        return {}
    return (
        {name: each for name, each in value.items() if isinstance(each, str)}
        if isinstance(value, dict)
        else {}
    )


def _pairs(form: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(form, max_num_fields=MOST_FIELDS))
    except ValueError:  # the application will refuse it
        return {}


def _multipart_fields(content_type: str, body: bytes) -> dict[str, str]:
    found: dict[str, str] = {}

    def keep(field: Any) -> None:
        if field.field_name and field.value:
            found[field.field_name.decode(errors="replace")] = field.value.decode(errors="replace")

    if body.lower().count(b"content-disposition:") <= _MOST_PARTS:
        headers = {"Content-Type": content_type.encode("latin-1")}
        with contextlib.suppress(FormParserError):  # the application will refuse it
            parse_form(headers, io.BytesIO(body), keep, lambda _: None)
    return found
