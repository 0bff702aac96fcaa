"""The guard before the application: hosts, origins, tokens, rates, sizes, and clients that have gone."""

import asyncio
import contextlib
import hmac
import io
import logging
import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl

from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from allyouneed.data.strict_json import JSONFault, parse_value
from allyouneed.serve.access import Hosts, Origins, ServerSettings, is_loopback
from allyouneed.serve.exchanges import current
from allyouneed.serve.protocols.protocol import ErrorForms, Protocol
from allyouneed.serve.refusals import INTERNAL, Refusal
from allyouneed.serve.request_options import MOST_BODY_BYTES, MOST_FIELDS, MOST_FILE_BYTES

_BURST_SECONDS = 2.0
"""Burst allowance, in seconds of the sustained rate."""
_MOST_ADDRESSES = 10_000
"""Number of addresses above which those that have not asked for a while are forgotten."""


class Rates:
    """Limits each address to so many requests per second in the long run; this machine's are not counted."""

    def __init__(self, per_second: float) -> None:
        self._seconds_per_request = 1 / per_second
        self._burst_seconds = max(_BURST_SECONDS, self._seconds_per_request)
        self._paid_until: dict[str, float] = {}
        """Address -> time at which it will have waited for all its requests."""

    def require(self, address: str, *, is_claimed: bool = False) -> None:
        """Count a request; refuse it if the address has asked too often (429).

        The address `is_claimed` if a header names it, which may claim to be from this machine.
        """
        if not address or (is_loopback(address) and not is_claimed):
            return
        now = time.monotonic()
        wait = max(0.0, self._paid_until.get(address, now) - now) + self._seconds_per_request
        if wait > self._burst_seconds:
            seconds = str(math.ceil(wait - self._burst_seconds))
            message = f"too many requests from one machine; try again in {seconds} s"
            raise Refusal(429, "too_often", message, {"Retry-After": seconds})
        self._paid_until[address] = now + wait
        if len(self._paid_until) > _MOST_ADDRESSES:
            self._paid_until = {each: until for each, until in self._paid_until.items() if until > now}
            if len(self._paid_until) > _MOST_ADDRESSES:  # all have just asked: looking again costs more
                self._paid_until.clear()


_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
"""Paths that need no token, besides those of the protocols and those below `/web/`."""
_MOST_PARTS = 100
"""Number of parts of a form above which no token is looked for: to read many takes seconds."""


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
    named = value if isinstance(value, dict) else {}
    return {name: each for name, each in named.items() if isinstance(each, str)}


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


AUTHORISED = "allyouneed.authorised"
"""Key of the scope that tells whether the request has the token, or needs none."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CLOSING = {"Connection": "close"}
_LATER = {"Retry-After": "1", **_CLOSING}
_MOST_FILES = 4
"""Number of files that are received at the same time."""
_UNCOUNTED_PATHS = ("/healthz", "/readyz")
_STAYING_PATHS = (*_UNCOUNTED_PATHS, "/metrics")
_log = logging.getLogger("allyouneed.server")


class Guard:
    """Lets only good requests through to an application, and stops its work when the client has gone.

    Bodies are read whole before the application runs, as none is longer than `MOST_BODY_BYTES`, or
    `MOST_FILE_BYTES` where files are sent. The protocols name open paths and the places of tokens. Requests
    are refused while `is_stopping` is true (503), and by `require_room` if the server is too busy, which
    costs less than the application.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        forms: ErrorForms,
        protocols: Sequence[Protocol],
        is_stopping: Callable[[], bool],
        require_room: Callable[[], None],
    ) -> None:
        self._app, self._settings, self._forms, self._is_stopping = app, settings, forms, is_stopping
        self._require_room = require_room
        self._rates = Rates(settings.requests_per_second)
        self._hosts, self._origins = Hosts(settings), Origins(settings.allowed_origins)
        self._open_paths = _OPEN_PATHS.union(*(each.open_paths for each in protocols))
        self._open_prefixes = (
            "/web/",
            *(path for path in self._open_paths if path.endswith("/") and path != "/"),
        )
        paths = (each.file_paths if settings.files else frozenset[str]() for each in protocols)
        self._file_paths = frozenset[str]().union(*paths, *(each.recording_paths for each in protocols))
        self._light_paths = tuple(path for each in protocols for path in each.light_paths)
        self._num_files = 0
        """Number of files that are being received."""
        self._token_schemes = {each.name: each.token_scheme for each in protocols}
        self._token_fields = {place: name for each in protocols for place, name in each.token_fields.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sending = _Sending(send, self._is_stopping)
        try:
            self._hosts.require(headers)
            if scope["path"] not in _UNCOUNTED_PATHS:
                address = (scope.get("client") or ("",))[0]
                may_be_claimed = bool(self._settings.trusted_proxies) and "x-forwarded-for" in headers
                self._rates.require(address, is_claimed=may_be_claimed)
            sending.headers |= self._origins.require(scope, headers)
            if scope["type"] == "http" and scope["method"] == "OPTIONS" and "origin" in headers:
                sending.headers |= self._origins.permission(headers)
                await Response(status_code=204)(scope, receive, sending)
                return
            _require_plain_body(headers)
            has_token_in_body = (scope["type"], scope["path"]) in self._token_fields
            if not has_token_in_body:
                self._require_token(scope, headers, b"")
            body = await self._body(scope, headers, receive)
            if body is None:
                return
            if has_token_in_body:
                self._require_token(scope, headers, body)
            if self._is_stopping() and scope["path"] not in _STAYING_PATHS:
                raise _stopping()
            is_post = scope["type"] == "http" and scope["method"] == "POST"
            if is_post and not scope["path"].startswith(self._light_paths):
                self._require_room()
        except Refusal as refusal:
            await self._refuse(refusal, scope, receive, sending)
            return
        if scope["type"] == "websocket":
            await self._talk(scope, receive, send)
        else:
            await self._answer(scope, body, receive, sending)

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except WebSocketDisconnect:
            raise
        except Exception as error:
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):  # of tasks
                cause = cause.exceptions[0]
            current().error = INTERNAL.label
            _log.error("%s: %s", scope["path"], _place(cause))
            raise

    def _require_token(self, scope: Scope, headers: Headers, body: bytes) -> None:
        """Refuse a request whose token is missing or wrong (401), unless its path needs none."""
        token = self._settings.token
        found = [] if token is None else list(self._tokens_given(scope, headers, body))
        scope[AUTHORISED] = token is None or any(
            hmac.compare_digest(each.encode(errors="replace"), token.encode()) for each in found
        )
        is_open = scope["path"] in self._open_paths or scope["path"].startswith(self._open_prefixes)
        if not (scope[AUTHORISED] or is_open):
            label, what = (
                ("wrong_token", "the token is wrong") if found else ("no_token", "there is no token")
            )
            scheme = self._token_schemes.get(current().protocol, "Bearer")
            message = f"{what}; send Authorization: {scheme} TOKEN"
            raise Refusal(401, label, message, {"WWW-Authenticate": 'Bearer realm="allyouneed"'})

    def _tokens_given(self, scope: Scope, headers: Headers, body: bytes) -> Iterator[str]:
        """The tokens of a request, where the protocols have them."""
        scheme, space, value = headers.get("authorization", "").partition(" ")
        if space and scheme.lower() in {"bearer", *map(str.lower, self._token_schemes.values())}:
            yield value.strip()
        if "x-api-key" in headers:
            yield headers["x-api-key"]
        if name := self._token_fields.get((scope["type"], scope["path"])):
            fields = _pairs(scope["query_string"].decode("latin-1"))
            if scope["type"] == "http":
                fields |= _fields(headers.get("content-type", ""), body)
            if fields.get(name):  # an empty one is none
                yield fields[name]

    async def _body(self, scope: Scope, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body; None if the client has gone."""
        if scope["type"] == "websocket":
            return b""
        has_file = scope["path"] in self._file_paths
        if has_file and self._num_files >= _MOST_FILES:
            raise Refusal(429, "too_many_files", "other files are being sent; try again in 1 s", _LATER)
        most_bytes = MOST_FILE_BYTES if has_file else MOST_BODY_BYTES
        if int(headers.get("content-length", "0")) > most_bytes:
            raise _too_large(most_bytes)
        self._num_files += has_file
        try:
            return await _received(receive, most_bytes)
        finally:
            self._num_files -= has_file

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, sending: "_Sending") -> None:
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
            await sending.send_as_it_is({"type": "websocket.close", "code": 1008, "reason": refusal.label})
            return
        forms = ErrorForms() if scope["type"] == "websocket" else self._forms  # other clients than the path's
        await forms.response(scope["path"], refusal)(scope, receive, sending)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, sending: "_Sending") -> None:
        """Run the application until it has answered or the client has gone."""
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        answering = asyncio.ensure_future(self._app(scope, receive_again, sending))
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            gone.set()
            if not answering.done() and not sending.is_complete:
                answering.cancel()
            await asyncio.wait([answering])
        except asyncio.CancelledError:  # there is no time left for it
            if not self._is_stopping() or sending.has_begun:
                raise
            await self._refuse(_stopping(), scope, receive, sending)
            return
        finally:
            answering.cancel()
            leaving.cancel()
        if not answering.cancelled() and (error := answering.exception()) is not None:
            current().error = INTERNAL.label
            _log.error("%s", _place(error))
            if not sending.has_begun:
                await self._refuse(INTERNAL, scope, receive, sending)


async def _received(receive: Receive, most_bytes: int) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
        if not message.get("more_body", False):
            return bytes(body)


class _Sending:
    """Sends an answer with the headers that all answers have."""

    def __init__(self, send: Send, is_stopping: Callable[[], bool]) -> None:
        self.send_as_it_is = send
        self._is_stopping = is_stopping
        self.headers: dict[str, str] = {}
        """Headers of this answer only."""
        self.has_begun = self.is_complete = False

    async def __call__(self, message: Message) -> None:
        kind = message["type"].removeprefix("websocket.")  # which responses to a handshake have
        if kind == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in (_HEADERS | self.headers).items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            if self._is_stopping():
                headers["Connection"] = "close"
            message = {**message, "headers": headers.raw}
        elif kind == "http.response.body":
            self.is_complete = not message.get("more_body", False)
        await self.send_as_it_is(message)


# Made anew each time: an exception that is raised again keeps the frames of before, and the bodies in them.
def _require_plain_body(headers: Headers) -> None:
    """Refuse a body that is compressed, or whose length is told twice."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "encoding", "the body is compressed; send it as it is", _CLOSING)
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Refusal(400, "two_lengths", "the body has a Content-Length and chunks; send one", _CLOSING)


def _too_large(most_bytes: int) -> Refusal:
    message = f"the body has more than {most_bytes:,} bytes; send less"
    return Refusal(413, "too_large", message, _CLOSING)


def _stopping() -> Refusal:
    return Refusal(503, "stopping", "the server is stopping; try again", {"Retry-After": "1"})


def _place(error: BaseException) -> str:
    """Where an unexpected exception arose, without its message, which may quote a user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    places: list[Any] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return f"unexpected {type(error).__name__}: " + " < ".join(reversed(places))
