"""The application: the list of everything that the server answers."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from allyouneed.serve import pages
from allyouneed.serve import prometheus as metrics
from allyouneed.serve.errors import ErrorForms, answer_errors
from allyouneed.serve.guard import Guard
from allyouneed.serve.observation import Observed, Observer
from allyouneed.serve.protocols import deepl, libretranslate, marian, openai, own
from allyouneed.serve.server_settings import ServerSettings
from allyouneed.serve.service import Service
from allyouneed.version import __version__

PROTOCOLS = (own, libretranslate, deepl, marian, openai)
"""Modules with the routes of the protocols."""
FORMS = ErrorForms(libretranslate.ERROR_FORMS | deepl.ERROR_FORMS | openai.ERROR_FORMS)
"""How refusals are worded, by paths."""


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
    counted = metrics.Metrics(service)
    routers = [
        ("", metrics.routes(counted, lambda: not service.is_stopping)),
        *((each.__name__.rpartition(".")[2], each.routes(service, settings)) for each in PROTOCOLS),
        ("", pages.routes(service, settings)),
    ]
    routes = [(route, "own") for route in app.routes]  # the schema's
    for protocol, router in routers:
        app.include_router(router)
        routes += [(route, protocol) for route in router.routes]
    answer_errors(app, FORMS)
    guard = Guard(
        app, settings, FORMS, libretranslate.OPEN_PATHS, lambda: service.is_stopping, service.require_room
    )
    return Observed(guard, [counted.exchange, *observers], routes)
