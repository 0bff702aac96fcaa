"""Which hosts, web sites and clients a request may name: keeps pages from reaching into local networks."""

import ipaddress
import re
from collections.abc import Mapping

from starlette.datastructures import Headers

from allyouneed.serve.refusals import Refusal
from allyouneed.serve.server_settings import ServerSettings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ALLOWED_HEADERS = "authorization, content-type, x-api-key"
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*", re.ASCII)
_MOST_CHARACTERS = 4_096
"""Length of a list of headers above which it is not permitted."""
_SECONDS_TO_REMEMBER = "600"


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
        name = host_name(given[0])
        if name not in self._names and not (self._allows_addresses and _is_address(name)):
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
        if origin is None or self._is_own(origin, headers):
            return {}
        if origin in self._allowed:
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD"):
            raise Refusal(403, "origin", "pages of other sites may not use this server")
        return {}

    @staticmethod
    def is_preflight(scope: Mapping[str, object], headers: Headers) -> bool:
        """Whether a browser asks for permission."""
        return scope["type"] == "http" and scope["method"] == "OPTIONS" and "origin" in headers

    @staticmethod
    def permission(headers: Headers) -> dict[str, str]:
        """The headers that permit requests to an allowed origin, with whatever headers its clients send."""
        asked = headers.get("access-control-request-headers", "")
        is_valid = len(asked) <= _MOST_CHARACTERS and _NAMES.fullmatch(asked)
        return {
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": asked if is_valid else _ALLOWED_HEADERS,
            "Access-Control-Max-Age": _SECONDS_TO_REMEMBER,
        }

    @staticmethod
    def _is_own(origin: str, headers: Headers) -> bool:
        _, found, place = origin.partition("://")
        return bool(found) and place.lower() == headers.get("host", "").lower()


class Proxies:
    """The addresses whose connections are those of many clients: this machine's, and those of named proxies.

    Places are addresses and networks, such as `172.30.0.0/24`; anything else is a `ValueError`.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self._networks = [ipaddress.ip_network(place) for place in places]

    def __contains__(self, address: str) -> bool:
        """Whether an address is one of them."""
        if is_loopback(address):
            return True
        return _is_address(address) and any(
            ipaddress.ip_address(address) in network for network in self._networks
        )


def host_name(host: str) -> str:
    """The name or address in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address or name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
