"""The settings of a server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_BODY_BYTES: Final = 2**20
"""Maximum size of a request's body."""
MOST_TEXTS: Final = 64
"""Maximum number of texts of a request."""
MOST_FIELDS: Final = 1_000
"""Maximum number of fields of a form, and of keys of an object in JSON: more take seconds to read."""
MOST_BEAMS: Final = 16
"""Maximum beam size, and number of translations per text, that a request may ask for."""


@dataclass
class ServerSettings:
    """Who may connect, and how much they may ask for; only the token changes while the server runs."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 chooses a free one."""
    token: str | None = None
    """Token that clients must send; None lets everyone in."""
    token_file: Path | None = None
    """File that the token is read from again on SIGHUP."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, besides loopback's and `host`, that the Host header of a request may have."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of pages on other sites that may read answers."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies, whose `X-Forwarded-For` names the client."""
    most_characters: int = 5_000
    """Maximum number of characters of a text."""
    queue_tokens: int = 65_536
    """Number of source tokens in the queue, times the beam size, above which requests are refused."""
    most_wait_seconds: float = 1.0
    """Estimated waiting time from which on requests are refused, unless a worker is idle."""
    request_seconds: float = 30.0
    """Maximum time for a request."""
    drain_seconds: float = 30.0
    """Maximum time for the requests that remain when the server is told to stop."""
    header_seconds: float = 5.0
    """Maximum time to receive the headers of a request."""
    body_seconds: float = 10.0
    """Maximum time to receive the body of a request, and maximum time that a client may leave its answer
    unread (on Linux)."""
    idle_seconds: float = 15.0
    """Time after which a connection without requests is closed."""
    requests_per_second: float = 50.0
    """Maximum number of requests per second from one other machine."""
    most_connections: int = 512
    """Maximum number of open connections."""
    most_connections_per_address: int = 256
    """Maximum number of open connections from one address."""
