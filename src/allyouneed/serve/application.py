"""The application: everything that the server answers, and the page at `/`."""

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from allyouneed.serve import prometheus
from allyouneed.serve.exchanges import Observed, Observer
from allyouneed.serve.guard import Guard
from allyouneed.serve.protocols import deepl, libretranslate, marian, openai, own
from allyouneed.serve.protocols.protocol import ErrorForms, answer_errors
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service
from allyouneed.version import __version__

_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_INDEX: Final = "index.html"
PROTOCOLS = (own.PROTOCOL, libretranslate.PROTOCOL, deepl.PROTOCOL, marian.PROTOCOL, openai.PROTOCOL)


def create_app(
    service: Service,
    settings: ServerSettings,
    *,
    observers: Sequence[Observer] = (),
    lifespan: Callable[[FastAPI], Any] | None = None,
) -> ASGIApp:
    """Make the application.

    Args:
        service: Answers the requests of all protocols.
        settings: Who may connect, and how much they may ask for.
        observers: Called after each HTTP request and each web socket.
        lifespan: Context in which the application runs.
    """
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
        *((each.name, each.routes(service, settings)) for each in PROTOCOLS),
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
    pages = {f"/web/{name}": content for name, content in _read("allyouneed.serve").items()}
    pages |= {f"/web/explorer/{name}": content for name, content in _read("allyouneed.explorer").items()}
    pages["/"] = pages.pop(f"/web/{_INDEX}")
    for path, (content, media_type) in pages.items():
        router.add_api_route(path, _File(content, media_type), methods=["GET", "HEAD"])
    return router


class _File:
    """Answers with a file, or with 304 if the client has it."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content, self._media_type = content, media_type
        self._headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "Cache-Control": "no-cache",  # ask each time, as the next version may have other files
        }

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.headers.get("if-none-match") == self._headers["ETag"]:
            return Response(status_code=304, headers=self._headers)
        return Response(self._content, media_type=f"{self._media_type}; charset=utf-8", headers=self._headers)


def _read(package: str) -> dict[str, tuple[bytes, str]]:
    """The files of a package's `web` folder by name, and their media types."""
    found = {}
    for file in files(package).joinpath("web").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            found[file.name] = file.read_bytes(), _TYPES[ending]
    return found
