"""Who may use a server: its settings and token, and the hosts, sites and clients that requests may name."""

import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers

from allyouneed.errors import UsageError, system_fault
from allyouneed.serve.refusals import Refusal

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ALLOWED_HEADERS = "authorization, content-type, x-api-key"
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*", re.ASCII)
_MOST_CHARACTERS = 4_096
"""Length of a list of headers above which it is not permitted."""
_SECONDS_TO_REMEMBER = "600"
_LONGEST_TOKEN = 1_024


@dataclass
class ServerSettings:
    """Who may connect, and how much they may ask for; only the token changes while the server runs.

    The options of `serve` explain those that they set. The other times are limits: to receive headers, to
    receive a body (or, on Linux, to leave an answer unread), to be idle between requests.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    """Token that clients must send; None lets everyone in."""
    token_file: Path | None = None
    """File that the token is read from again on SIGHUP."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    keep: bool = False
    """Whether placeholders, addresses and the like stay as they are in translations."""
    glossaries: Path | None = None
    """Folder of the glossaries that clients store."""
    files: bool = False
    """Whether clients may send files."""
    most_characters: int = 5_000
    queue_tokens: int = 65_536
    """Number of source tokens in the queue, times the beam size, above which requests are refused."""
    most_wait_seconds: float = 1.0
    request_seconds: float = 30.0
    drain_seconds: float = 30.0
    header_seconds: float = 5.0
    body_seconds: float = 10.0
    idle_seconds: float = 15.0
    requests_per_second: float = 50.0
    most_connections: int = 512
    most_connections_per_address: int = 256


def require_safe_address(settings: ServerSettings, *, insecure: bool) -> None:
    """Refuse to listen beyond loopback without a token, unless `insecure`."""
    if settings.token is None and not insecure and not is_loopback(settings.host):
        raise UsageError(
            f"--host {settings.host}: other machines could connect without a token; "
            "add --token-file FILE, or --insecure if everyone may"
        )


def read_token(path: Path) -> str:
    """Read the token that clients must send from a file of one line.

    Raises:
        UsageError: The file is missing, is not for its owner only, or has not exactly one line.
    """
    place = f"--token-file {path}"
    try:
        status = path.stat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise UsageError(f"{place}: {system_fault(error)}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{place}: is no file")
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        raise UsageError(f"{place}: others can read it; run: chmod 600 {path}")
    token = content.removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.decode().isprintable():
        raise UsageError(f"{place}: is not one line of printable ASCII characters; write a long random token")
    return token.decode()


class Hosts:
    """The names that the Host header of requests may have: the settings `host` and `allowed_hosts`.

    Any address in numbers is allowed if the server listens beyond loopback: only names can be rebound.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._names = _LOOPBACK | {settings.host.lower(), *(host.lower() for host in settings.allowed_hosts)}
        self._allows_addresses = not is_loopback(settings.host)

    def require(self, headers: Headers) -> None:
        """Refuse a request to another host (421), or without exactly one Host header (400)."""
        given = headers.getlist("host")
        if len(given) != 1:
            raise Refusal(400, "host", "the request has not exactly one Host header")
        bracketed = given[0].partition("]")[0]  # an address of IPv6; both without the port
        name = (bracketed + "]" if given[0].startswith("[") else given[0].partition(":")[0]).lower()
        if name not in self._names and not (self._allows_addresses and _address(name.strip("[]"))):
            raise Refusal(
                421, "host", "the server does not answer for this Host; its operator can add --allowed-host"
            )


class Origins:
    """The web sites whose pages may use the server, by origins such as `https://example.org`."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(allowed)

    def require(self, scope: Mapping[str, object], headers: Headers) -> dict[str, str]:
        """The headers of the answer that let a page read it.

        Raises:
            Refusal: The page of another site may not do this (403); it may get what changes nothing, but the
                browser will not show it the answer.
        """
        origin = headers.get("origin")
        _, found, place = (origin or "").partition("://")
        if origin is None or (found and place.lower() == headers.get("host", "").lower()):  # our own page
            return {}
        if origin in self._allowed:
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD"):
            raise Refusal(403, "origin", "pages of other sites may not use this server")
        return {}

    @staticmethod
    def permission(headers: Headers) -> dict[str, str]:
        """The headers that permit requests to an allowed origin, with whatever headers its clients send."""
        asked = headers.get("access-control-request-headers", "")
        is_valid = len(asked) <= _MOST_CHARACTERS and _NAMES.fullmatch(asked)
        return {
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": asked if is_valid else _ALLOWED_HEADERS,
            "Access-Control-Max-Age": _SECONDS_TO_REMEMBER,
        }


class Proxies:
    """The addresses whose connections are those of many clients: this machine's, and those of named proxies.

    Places are addresses and networks, such as `172.30.0.0/24`; anything else is a `ValueError`.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self._networks = [ipaddress.ip_network(place) for place in places]

    def __contains__(self, address: str) -> bool:
        found = _address(address)
        return is_loopback(address) or any(found in network for network in self._networks if found)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address or name."""
    found = _address(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
