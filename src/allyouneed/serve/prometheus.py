"""What the server counts, in the format of Prometheus, and whether it is healthy."""

from collections.abc import Callable, Iterable

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import Gauge, Histogram, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from allyouneed.serve.exchanges import SWITCHING, Exchange
from allyouneed.serve.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

disable_created_metrics()  # a gauge with the time of the first count, beside each counter


class Metrics:
    """Counts requests and times them, by route; no value of a label is a client's.

    Args:
        service: Service whose queue and counts are shown.
    """

    def __init__(self, service: Service) -> None:
        self._registry = service.counts.registry
        self._requests = service.counts.counter(
            "requests", "Answered requests.", "path", "status", "protocol", "direction", "model"
        )
        self._seconds = Histogram(
            "allyouneed_request_seconds",
            "Time from a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        queue = "allyouneed_queue_tokens", "Source tokens in the queue, times beams."
        Gauge(*queue, registry=self._registry).set_function(lambda: service.num_queued_tokens)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)

    def exchange(self, exchange: Exchange) -> None:
        """Count an answered request."""
        served = _label(exchange.directions), _label(exchange.models)
        self._requests.labels(exchange.path, str(exchange.status), exchange.protocol, *served).inc()
        if exchange.status != SWITCHING:
            self._seconds.labels(exchange.path).observe(exchange.seconds)


def _label(values: Iterable[str]) -> str:
    """The only value; empty if there is none."""
    first, *others = [*values] or [""]
    return "several" if others else first


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
