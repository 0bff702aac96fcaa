"""What the server counts, in the format of Prometheus, and whether it is healthy."""

import time
from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allyouneed.interfaces.server.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests and times them, by route.

    Args:
        service: Service whose queue is shown.
    """

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "allyouneed_requests", "Answered requests.", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "allyouneed_request_seconds",
            "Time from a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        for name, meaning, value in (
            ("queue_tokens", "Source tokens in the queue, times beams.", lambda: service.num_queued_tokens),
            ("translated_characters", "Characters translated.", lambda: service.num_translated_characters),
        ):
            Gauge(f"allyouneed_{name}", meaning, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)


class CountRequests:
    """Middleware that counts the requests of an application by the paths of its routes."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 499  # the client has gone

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.count(path, status, time.monotonic() - began)


def routes(metrics: Metrics, is_ready: Callable[[], bool]) -> APIRouter:
    """The endpoints `/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz")
    async def readiness() -> JSONResponse:
        ready = is_ready()
        return JSONResponse({"status": "ok" if ready else "stopping"}, 200 if ready else 503)

    @router.get("/metrics")
    async def read() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
