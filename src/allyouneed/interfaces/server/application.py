"""The application: the list of everything that the server answers."""

from fastapi import FastAPI

from allyouneed.interfaces.server import metrics, pages
from allyouneed.interfaces.server.protocols import deepl, libretranslate, marian, openai, own
from allyouneed.interfaces.server.security import secured
from allyouneed.interfaces.server.service import Service
from allyouneed.interfaces.server.settings import ServerSettings
from allyouneed.interfaces.server.strict import answer_errors
from allyouneed.version import __version__

PROTOCOLS = (own, libretranslate, deepl, marian, openai)
"""Modules with the routes of the protocols."""


def create_app(service: Service, settings: ServerSettings) -> FastAPI:
    """Make the application.

    Args:
        service: Answers the requests of all protocols.
        settings: Who may connect, and how much they may ask for.
    """
    app = FastAPI(
        title="allyouneed",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    counted = metrics.Metrics(service)
    app.include_router(metrics.routes(counted, lambda: not service.is_stopping))
    for protocol in PROTOCOLS:
        app.include_router(protocol.routes(service, settings))
    app.include_router(pages.routes(service, settings))
    answer_errors(app)
    app.add_middleware(metrics.CountRequests, metrics=counted)
    secured(app, settings)
    return app
