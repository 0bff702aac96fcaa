"""The protocol of marian-server (https://marian-nmt.github.io): a web socket at `/translate`.

A message has lines to translate. Its answer is one message with as many lines, each followed by a line feed;
an empty message is answered by a line feed. Messages are answered in order.

Marian has no messages about errors: it drops the connection. This server refuses the handshake if it does not
translate in the direction that the query names, as in `/translate?source=en&target=de` (by default the first
one), and otherwise closes the socket with a code and a reason, so that no client takes an error for a
translation. As Marian's clients do not try again, a message waits for room in the queue. A server that is
told to stop answers the messages that it has received, then closes the socket.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect

from allyouneed.serve.directions import NO_DIRECTION, closest
from allyouneed.serve.exchanges import current
from allyouneed.serve.protocols.protocol import Protocol
from allyouneed.serve.refusals import Refusal, own_form
from allyouneed.serve.request_options import MOST_BODY_BYTES, MOST_TEXTS, RequestOptions, Translated
from allyouneed.serve.service import Service

PATH: Final = "/translate"
_CLOSE_CODES: Final = {400: 1007, 413: 1009, 422: 1007, 429: 1013, 503: 1012}
"""Status of a refusal -> code of RFC 6455 (and its registry) to close a socket with."""
_INTERNAL_ERROR: Final = 1011
_MOST_REASON_BYTES: Final = 123
_MOST_WAITING_CHARACTERS: Final = MOST_BODY_BYTES
"""Number of characters of unanswered messages above which a connection is not read from."""
_CHARACTERS_PER_MESSAGE: Final = 64
"""Size of a message besides its text, as also many empty ones take memory."""
_STOPPING: Final = 1012


def routes(service: Service) -> APIRouter:
    """The endpoint."""
    router = APIRouter()

    @router.websocket(PATH)
    async def translate(socket: WebSocket) -> None:
        source, target = (socket.query_params.get(name) or None for name in ("source", "target"))
        if fitting := closest(service.directions, source, target):
            await socket.accept()
            options = RequestOptions(fitting[0].source, fitting[0].target)
            await _Connection(socket, service, options).serve()
        else:
            current().error = NO_DIRECTION[1]
            await socket.send_denial_response(own_form(Refusal(*NO_DIRECTION)))

    return router


PROTOCOL: Final = Protocol("marian", routes, token_fields={("websocket", PATH): "token"})


def close_code(refusal: Refusal) -> int:
    """The code with which a socket is closed for a refusal."""
    return _CLOSE_CODES.get(refusal.status, _INTERNAL_ERROR)


def lines_of(message: str) -> list[str]:
    """The lines of a message; the last line feed may be missing, a carriage return at an end is dropped."""
    lines = message.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


class _Connection:
    """A socket that has been accepted."""

    def __init__(self, socket: WebSocket, service: Service, options: RequestOptions) -> None:
        self._socket, self._service, self._options = socket, service, options
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()
        """Messages to be answered; None: the last has been received."""
        self._num_waiting_characters = self._num_unanswered = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def serve(self) -> None:
        """Answer messages until the client closes the socket, which cancels what is being translated."""
        try:
            async with asyncio.TaskGroup() as tasks:
                talking = [tasks.create_task(self._answer()), tasks.create_task(self._receive())]
                ending = tasks.create_task(self._end())
                await asyncio.wait(talking, return_when=asyncio.FIRST_COMPLETED)
                for task in (*talking, ending):
                    task.cancel()
        except* WebSocketDisconnect:
            pass
        except* Refusal as refusals:
            [refusal, *_] = refusals.exceptions
            assert isinstance(refusal, Refusal)
            current().error = refusal.label
            reason = refusal.message.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
            with contextlib.suppress(WebSocketDisconnect):  # the client was faster
                await self._socket.close(close_code(refusal), reason)
        finally:
            self._service.num_unanswered_messages -= self._num_unanswered

    async def _receive(self) -> None:
        """Queue messages until the client closes the socket; those after the end are ignored."""
        while (received := await self._socket.receive())["type"] == "websocket.receive":
            if self._service.is_stopping:
                continue
            text = _text(received.get("text"), received.get("bytes"))
            await self._has_room.wait()  # not earlier: that a client leaves is received like a message
            self._count(1, text)
            self._messages.put_nowait(text)
            if self._num_waiting_characters > _MOST_WAITING_CHARACTERS:
                self._has_room.clear()

    async def _end(self) -> None:
        """Let no messages follow when the server is told to stop."""
        await self._service.stopping.wait()
        await self._has_room.wait()  # one that waits for room has been received, and comes first
        self._messages.put_nowait(None)

    async def _answer(self) -> None:
        """Answer the queued messages, one after the other; close the socket after the last."""
        while (message := await self._messages.get()) is not None:
            await self._socket.send_text(await self._translate(message))
            self._count(-1, message)
            if self._num_waiting_characters <= _MOST_WAITING_CHARACTERS:
                self._has_room.set()
        await self._socket.close(_STOPPING, "the server is stopping; try again")

    def _count(self, number: int, message: str) -> None:  # 1: received, -1: answered
        self._num_waiting_characters += number * (len(message) + _CHARACTERS_PER_MESSAGE)
        self._num_unanswered += number
        self._service.num_unanswered_messages += number

    async def _translate(self, message: str) -> str:
        lines = lines_of(message)
        texts = [line for line in lines if line.strip()]
        found: list[Translated] = []
        for start in range(0, len(texts), MOST_TEXTS):
            found += await self._translate_when_there_is_room(texts[start : start + MOST_TEXTS])
        translations = iter(found)
        answers = [next(translations).translations[0].text if line.strip() else line for line in lines]
        return "\n".join(answers) + "\n"

    async def _translate_when_there_is_room(self, texts: Sequence[str]) -> list[Translated]:
        clock = asyncio.get_running_loop()
        end = clock.time() + self._service.settings.request_seconds
        while True:
            try:
                return await self._service.translate(texts, self._options)
            except Refusal as refusal:
                seconds = float(refusal.headers.get("Retry-After", 1))
                if refusal.status != 429 or clock.time() + seconds > end:
                    raise
            await asyncio.sleep(seconds)


def _text(text: str | None, content: bytes | None) -> str:
    """The text of a message, which may be declared as binary."""
    try:
        found = text if text is not None else (content or b"").decode()
    except UnicodeDecodeError as error:
        raise Refusal(400, "not_utf8", f"byte {error.start + 1} of the message is not UTF-8") from None
    if len(found) > MOST_BODY_BYTES:
        raise Refusal(413, "too_long", f"a message has more than {MOST_BODY_BYTES:,} characters; divide it")
    return found
