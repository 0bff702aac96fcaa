"""What is told of requests and web sockets, answered or refused: never what a user wrote."""

from collections.abc import Iterator

import httpx
import pytest
from tests.patience import wait_until
from tests.serve.conftest import SETTINGS, running
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from allyouneed.serve.application import create_app
from allyouneed.serve.exchanges import Exchange
from allyouneed.serve.service import Service


@pytest.fixture
def told() -> list[Exchange]:
    return []


@pytest.fixture
def address(service: Service, told: list[Exchange]) -> Iterator[str]:
    with running(create_app(service, SETTINGS, observers=[told.append]), SETTINGS) as found:
        yield found


def test_refused_requests_have_their_path_if_it_is_one_of_the_server_s(
    address: str, told: list[Exchange]
) -> None:
    evil = {"Host": "evil.example"}
    for path in (
        "/api/models",
        "/translate",
        "/v2/languages",
        "/web/page.css",
        "/my/secret",
        "/v2/my-secret",
    ):
        httpx.get(f"{address}{path}", headers=evil)
    assert [(each.path, each.status) for each in told] == [
        ("/api/models", 421),
        ("/translate", 421),
        ("/v2/languages", 421),
        ("other", 421),
        ("other", 421),
        ("/v2/{path:path}", 421),
    ]


def test_web_sockets_are_told_at_their_end_and_refused_ones_too(address: str, told: list[Exchange]) -> None:
    place = f"{address.replace('http', 'ws')}/translate"
    with connect(place, proxy=None) as socket:
        socket.send("sun")
        assert socket.recv()
        assert told == []
    wait_until(lambda: len(told) == 1)
    with pytest.raises(InvalidStatus):
        connect(f"{place}?source=xx", proxy=None)
    wait_until(lambda: len(told) == 2)
    assert [(each.method, each.path, each.status) for each in told] == [
        ("GET", "/translate", 101),
        ("GET", "/translate", 404),
    ]
