"""What the server counts, in the format of Prometheus, and whether it is healthy."""

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from allyouneed.interfaces.server.observation import SWITCHING, Exchange
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

    def exchange(self, exchange: Exchange) -> None:
        """Count an answered request."""
        self._requests.labels(exchange.path, str(exchange.status)).inc()
        if exchange.status != SWITCHING:
            self._seconds.labels(exchange.path).observe(exchange.seconds)


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
