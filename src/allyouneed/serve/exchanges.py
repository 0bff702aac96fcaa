"""Requests and their answers, as the log and the metrics tell them: never what a user wrote."""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product

from prometheus_client import CollectorRegistry, Counter

from allyouneed.serve.ask import Translated

SWITCHING = 101
"""Status of a web socket."""
GONE = 499
"""Status of a request whose client has gone before its answer began."""


@dataclass
class Exchange:
    """A request and its answer; completed while it is answered."""

    client: str = ""
    """Address of the client."""
    method: str = ""
    path: str = ""
    """Path of the route; "other" if there is none."""
    host: str = ""
    """The Host header, or its beginning, as the client wrote it."""
    protocol: str = ""
    """Name of the protocol; empty for the page and the paths of operators."""
    id: str = ""
    """The client's `X-Request-Id`, if it is short and plain, or a random one."""
    status: int = GONE
    """Status of the answer; 101 for a web socket, told at its end."""
    error: str = ""
    """Label of the reason, if the request was refused or has failed."""
    directions: dict[str, None] = field(default_factory=dict)
    """Directions of the texts, such as "en-de"."""
    models: dict[str, None] = field(default_factory=dict)
    """Names of the models; those that translate one after the other are joined by "+"."""
    num_admitted: int = 0
    """Number of characters of the texts that were admitted."""
    num_pending: int = 0
    """Number of characters of the last texts, while they are not admitted."""
    num_bytes: int = 0
    """Size of the answer's body."""
    seconds: float = 0.0

    def note(self, source: str, target: str, models: Sequence[str]) -> None:
        """Note a direction, or a parser, which has no languages."""
        self.directions |= {f"{source}-{target}": None} if source else {}
        self.models |= {"+".join(models): None} if models else {}
        if not models:  # the text stays as it is: there is nothing to admit
            self.admit()

    def admit(self) -> None:
        """Count the pending characters as admitted."""
        self.num_admitted += self.num_pending
        self.num_pending = 0


CURRENT: ContextVar[Exchange] = ContextVar("exchange")
"""The request that is being answered."""


def current() -> Exchange:
    """The request that is being answered; one that nobody sees, if there is none."""
    return CURRENT.get(None) or Exchange()


class Counts:
    """What a service counts from its start.

    Args:
        models: Names of the served models.
    """

    def __init__(self, models: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        self.num_characters = 0
        """Number of characters of all texts that were translated."""
        self._translated = [
            self.counter(f"translated_{unit}", f"Translated {unit}.", "direction", "model", "protocol")
            for unit in ("characters", "sentences", "source_tokens", "target_tokens")
        ]
        self.reloads = self.counter("reloads", "Models that have changed on disk.", "model", "result")
        for labels in product(models, ("ok", "failed")):
            self.reloads.labels(*labels)  # is 0, not missing

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """A counter that is shown with the others."""
        return Counter(f"allyouneed_{name}", meaning, labels, registry=self.registry)

    def translated(self, found: Translated, num_characters: int) -> None:
        """Count a translated text."""
        self.num_characters += num_characters
        labels = f"{found.source}-{found.target}", "+".join(found.models), current().protocol
        amounts = num_characters, len(found.segments), *found.num_tokens
        for counter, amount in zip(self._translated, amounts, strict=True):
            counter.labels(*labels).inc(amount)
