"""Endpoints whose errors a protocol words itself."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from allyouneed.serve.exchanges import current
from allyouneed.serve.refusal import Refusal

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
