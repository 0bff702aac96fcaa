"""The token of a request, wherever the clients of each protocol send it."""

import hmac
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.interfaces.server.refusal import Refusal

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/api/models"})
"""Paths that need no token, besides those below `/web/`."""
_IN_BODIES = frozenset({"/translate", "/detect"})
"""Paths whose bodies may have a token, as LibreTranslate's clients send it."""
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
    name = "token" if scope["type"] == "websocket" else "api_key"
    fields = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    if scope["type"] == "http" and scope["path"] in _IN_BODIES:
        fields |= _fields(headers.get("content-type", ""), body)
    if fields.get(name):  # an empty one is none
        yield fields[name]


def _fields(content_type: str, body: bytes) -> dict[str, str]:
    """The text fields of a body in JSON or of a form."""
    if content_type.startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(body.decode(errors="replace")))
    try:
        value = parse_value(body.decode())
    except (JSONFault, UnicodeDecodeError):
        return {}
    return (
        {name: each for name, each in value.items() if isinstance(each, str)}
        if isinstance(value, dict)
        else {}
    )
