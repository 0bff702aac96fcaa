"""The application: everything that the server answers, and the page at `/`."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from allyouneed.serve import prometheus
from allyouneed.serve.access import ServerSettings
from allyouneed.serve.exchanges import Observed, Observer
from allyouneed.serve.guard import Guard
from allyouneed.serve.protocols import deepl, libretranslate, marian, openai, own
from allyouneed.serve.protocols.protocol import ErrorForms, answer_errors
from allyouneed.serve.service import Service
from allyouneed.version import __version__

_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_INDEX: Final = "/web/index.html"
PROTOCOLS = (own.PROTOCOL, libretranslate.PROTOCOL, deepl.PROTOCOL, marian.PROTOCOL, openai.PROTOCOL)


def create_app(
    service: Service,
    settings: ServerSettings,
    *,
    observers: Sequence[Observer] = (),
    lifespan: Callable[[FastAPI], Any] | None = None,
) -> ASGIApp:
    """Make the application, which calls the observers after each HTTP request and each web socket."""
    app = FastAPI(
        title="allyouneed",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to a proxy's plain http
        lifespan=lifespan,
    )
    routers = [
        ("", prometheus.routes(service.metrics, lambda: not service.is_stopping)),
        *((each.name, each.routes(service)) for each in PROTOCOLS),
        ("", _page()),
    ]
    routes = [(route, "own") for route in app.routes]  # the schema's
    for protocol, router in routers:
        app.include_router(router)
        routes += [(route, protocol) for route in router.routes]
    answer_errors(app, forms := ErrorForms(PROTOCOLS))
    guard = Guard(app, settings, forms, PROTOCOLS, lambda: service.is_stopping, service.require_room)
    return Observed(guard, [service.metrics.exchange, *observers], routes)


def _page() -> APIRouter:
    """The page, its modules and style sheets, and those of the explorer of attention."""
    router = APIRouter(include_in_schema=False)
    for package, place in (("allyouneed.serve", "/web/"), ("allyouneed.explorer", "/web/explorer/")):
        for file in files(package).joinpath("web").iterdir():
            if media_type := _TYPES.get(file.name.rpartition(".")[2]):
                path = "/" if place + file.name == _INDEX else place + file.name
                answer = _file(file.read_bytes(), f"{media_type}; charset=utf-8")
                router.add_api_route(path, answer, methods=["GET", "HEAD"])
    return router


def _file(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Answers with a file, or with 304 if the client has it."""
    # no-cache: ask each time, as the next version may have other files
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    return answer
