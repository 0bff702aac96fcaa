"""A machine that asks too often is told so; others, and this one, are not."""

import asyncio
import time
from dataclasses import replace

import httpx
import pytest
from tests.serve.conftest import SETTINGS

from allyouneed.serve import rates
from allyouneed.serve.application import create_app
from allyouneed.serve.process import configured
from allyouneed.serve.rates import Rates
from allyouneed.serve.refusal import Refusal
from allyouneed.serve.service import Service


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def allowed(limits: Rates, address: str, num: int) -> int:
    """How many of so many requests at once are allowed."""
    refusals: list[Refusal] = []
    for _ in range(num):
        try:
            limits.require(address)
        except Refusal as refusal:
            refusals.append(refusal)
    assert all((each.status, each.label) == (429, "too_often") for each in refusals)
    assert all(int(each.headers["Retry-After"]) >= 1 for each in refusals)
    return num - len(refusals)


def test_an_address_may_ask_so_often_and_no_more(clock: list[float]) -> None:
    limits = Rates(8)
    assert allowed(limits, "10.0.0.1", 100) == 16  # two seconds' worth at once
    assert allowed(limits, "10.0.0.2", 3) == 3
    for _ in range(5):
        clock[0] += 1
        assert allowed(limits, "10.0.0.1", 100) == 8
    clock[0] += 60
    assert allowed(limits, "10.0.0.1", 100) == 16


def test_a_rate_below_one_in_the_burst_lets_single_requests_through(clock: list[float]) -> None:
    for rate in (0.1, 0.5, 1 / 3):
        limits = Rates(rate)
        assert allowed(limits, "10.0.0.1", 5) == 1
        clock[0] += 1.001 / rate
        assert allowed(limits, "10.0.0.1", 5) == 1


def test_addresses_that_are_only_claimed_do_not_fill_the_memory(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "_MOST_ADDRESSES", 10)
    limits = Rates(0.1)
    for number in range(100):
        limits.require(f"10.0.0.{number}", is_claimed=True)
        assert len(limits._paid_until) <= 10


def test_this_machine_may_ask_as_often_as_it_likes(clock: list[float]) -> None:
    limits = Rates(1)
    assert allowed(limits, "127.0.0.1", 1_000) == allowed(limits, "", 1_000) == 1_000


def test_addresses_that_are_quiet_are_forgotten(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_ADDRESSES", 10)
    limits = Rates(1)
    for number in range(100):
        clock[0] += 1
        limits.require(f"10.0.0.{number}")
    assert len(limits._paid_until) <= 11


def test_clients_of_a_trusted_proxy_are_counted_one_by_one(service: Service, clock: list[float]) -> None:
    """The proxy appends the address of its client to what that has claimed."""
    settings = replace(SETTINGS, requests_per_second=1, trusted_proxies=("172.16.0.0/12",))
    config = configured(create_app(service, settings), settings)
    config.load()

    async def ask(peer: str, forwarded: str) -> list[int]:
        transport = httpx.ASGITransport(config.loaded_app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"X-Forwarded-For": forwarded} if forwarded else {}
            return [(await client.get("/api/models", headers=headers)).status_code for _ in range(3)]

    limited, free = [200, 200, 429], [200, 200, 200]
    assert asyncio.run(ask("172.17.0.1", "10.0.0.1")) == limited
    assert asyncio.run(ask("172.17.0.1", "10.0.0.2")) == limited
    assert asyncio.run(ask("172.17.0.1", "127.0.0.1, 10.0.0.3")) == limited
    assert asyncio.run(ask("10.0.0.4", "10.0.0.5")) == limited
    assert asyncio.run(ask("10.0.0.4", "10.0.0.6")) == [429] * 3, "any client could claim to be many"
    assert asyncio.run(ask("172.17.0.2", "127.0.0.1")) == limited, "any client could claim to be here"
    assert asyncio.run(ask("127.0.0.1", "")) == free


def test_the_server_limits_other_machines(service: Service, clock: list[float]) -> None:
    """Not this one, such as a proxy that is not trusted to name its clients."""
    app = create_app(service, replace(SETTINGS, requests_per_second=1))

    async def ask(address: str, path: str) -> list[int]:
        transport = httpx.ASGITransport(app, client=(address, 1))
        headers = {"X-Forwarded-For": "10.0.0.9"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.get(path, headers=headers)).status_code for _ in range(4)]

    assert asyncio.run(ask("10.0.0.1", "/api/models")) == [200, 200, 429, 429]
    assert asyncio.run(ask("10.0.0.1", "/healthz")) == [200] * 4
    assert asyncio.run(ask("127.0.0.1", "/api/models")) == [200] * 4
