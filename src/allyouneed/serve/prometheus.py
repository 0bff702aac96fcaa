"""Counts and times of what the server does, in the format of Prometheus, and whether it is healthy."""

from collections.abc import Callable, Iterable
from itertools import product

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from allyouneed.serve.exchanges import SWITCHING, Exchange, current
from allyouneed.serve.request_options import Translated

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

disable_created_metrics()  # a gauge with the time of the first count, beside each counter


class Metrics:
    """Counts texts and requests from the start of a service; no value of a label is a client's."""

    def __init__(self, models: Iterable[str], num_queued_tokens: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.num_characters = 0
        """Number of characters of all texts that were translated."""
        of_texts = "direction", "model", "protocol"
        self._translated = [
            self._counter(f"translated_{'_'.join(words)}", f"Translated {' '.join(words)}.", *of_texts)
            for words in (["characters"], ["sentences"], ["source", "tokens"], ["target", "tokens"])
        ]
        self.reloads = self._counter("reloads", "Models that have changed on disk.", "model", "result")
        for labels in product(models, ("ok", "failed")):
            self.reloads.labels(*labels)  # is 0, not missing
        self._requests = self._counter(
            "requests", "Answered requests.", "path", "status", "protocol", "direction", "model"
        )
        self._seconds = Histogram(
            "allyouneed_request_seconds",
            "Time from a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        queue = "allyouneed_queue_tokens", "Source tokens in the queue, times the beam size."
        Gauge(*queue, registry=self.registry).set_function(num_queued_tokens)
        ProcessCollector(registry=self.registry)

    def translated(self, found: Translated, num_characters: int) -> None:
        """Count a translated text."""
        self.num_characters += num_characters
        labels = f"{found.source}-{found.target}", "+".join(found.models), current().protocol
        amounts = num_characters, len(found.segments), *found.num_tokens
        for counter, amount in zip(self._translated, amounts, strict=True):
            counter.labels(*labels).inc(amount)

    def exchange(self, exchange: Exchange) -> None:
        """Count an answered request."""
        served = _label(exchange.directions), _label(exchange.models)
        self._requests.labels(exchange.path, str(exchange.status), exchange.protocol, *served).inc()
        if exchange.status != SWITCHING:
            self._seconds.labels(exchange.path).observe(exchange.seconds)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"allyouneed_{name}", meaning, labels, registry=self.registry)


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
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router
