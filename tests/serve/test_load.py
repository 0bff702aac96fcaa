"""Many clients of the real program at once (release tier)."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import TOY_WORDS
from tests.http_load import Connection, Tally, load
from tests.serve.test_process import program

from allyouneed.runs.loading import load_translator

pytestmark = pytest.mark.release

CLIENTS, SECONDS = 200, 60.0
NUM_REQUESTS = 10_000


@contextmanager
def server(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program, and its port."""
    with program(*arguments) as running:
        yield running.process, int(running.address.rpartition(":")[2])


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    [line] = [
        line for line in Path(f"/proc/{process.pid}/status").read_bytes().split(b"\n") if b"VmRSS" in line
    ]
    return int(line.split()[1]) * 1024


def unique_texts(seed: int) -> Iterator[str]:
    """Texts of toy words, each different: an endless number."""
    draw = random.Random(seed)
    for number in itertools.count():
        words = draw.choices(TOY_WORDS, k=draw.randint(2, 9))
        digits = [TOY_WORDS[int(digit)] for digit in str(number)]
        yield " ".join([*words, *digits])


class Asked:
    """Requests of unique texts, and their answers."""

    def __init__(self, seed: int) -> None:
        self._texts, self.answers = unique_texts(seed), dict[str, str]()

    def __call__(self) -> tuple[Any, Callable[[Any], str | None], int]:
        text = next(self._texts)

        def check(answer: Any) -> str | None:
            [result] = answer["results"]
            self.answers[text] = result["translations"][0]["text"]
            return None

        return {"text": text, "source": "en", "target": "de"}, check, 1


def test_two_hundred_clients_get_their_own_answers_in_time(toy_model: Path) -> None:
    """Those of the command for their text: none is lost or crossed, and who is refused is told so at once.

    Promise: Load.
    """
    asked, healthy = Asked(1), Tally()

    async def look_after(port: int) -> None:
        with contextlib.closing(Connection(port)) as connection:
            while True:
                reply = await connection.get("/healthz")
                healthy.answered.append(reply.seconds)
                await asyncio.sleep(0.1)

    async def attack(port: int) -> Tally:
        looking = asyncio.create_task(look_after(port))
        try:
            return await load(
                port, "/api/translate", CLIENTS, SECONDS, asked, leaving_share=0.1, ramp_seconds=2.0
            )
        finally:
            looking.cancel()

    with server("--direction", f"en-de={toy_model}") as (process, port):
        tally = asyncio.run(attack(port))
        assert process.poll() is None
    p99 = {
        "accepted": Tally.percentile(tally.answered, 0.99),
        "refused": Tally.percentile(tally.refused, 0.99),
        "health": Tally.percentile(healthy.answered, 0.99),
    }
    print(
        f"{len(tally.answered):,} answered, {len(tally.refused):,} refused, {tally.left:,} left; p99: {p99}"
    )
    assert tally.wrong == []
    assert len(tally.answered) == len(asked.answers) > 1_000
    assert tally.left > 100
    assert len(healthy.answered) > 100
    texts = list(asked.answers)
    translator = load_translator(toy_model, precision="int8" if has_int8() else "float32")
    expected = translator.translate(texts, split_sentences=True)
    assert [each.text for each in expected] == list(asked.answers.values())
    assert p99["accepted"] <= 2.0
    assert p99["refused"] <= 0.25
    assert p99["health"] <= 0.25


def has_int8() -> bool:
    from allyouneed.serve.models import _has_fast_int8

    return _has_fast_int8()


def test_memory_stays_after_ten_thousand_requests(toy_model: Path) -> None:
    """Promise: Load."""
    draw = random.Random(2)

    def next_request() -> tuple[Any, Callable[[Any], str | None], int]:
        text = " ".join(draw.choices(TOY_WORDS, k=draw.randint(1, 40)))
        return {"text": text, "n_best": draw.randint(1, 4), "source": "en"}, lambda answer: None, 1

    async def ask(port: int, num: int) -> None:
        remaining = itertools.count(num, -1)

        async def client() -> None:
            connection = Connection(port)
            while next(remaining) > 0:
                reply = await connection.post("/api/translate", next_request()[0])
                assert reply.status in (200, 429)
            connection.close()

        await asyncio.gather(*(client() for _ in range(16)))

    with server("--direction", f"en-de={toy_model}", "--max-wait", "60") as (process, port):
        asyncio.run(ask(port, NUM_REQUESTS // 5))
        before = resident_bytes(process)
        asyncio.run(ask(port, NUM_REQUESTS - NUM_REQUESTS // 5))
        after = resident_bytes(process)
    print(f"{before / 2**20:.0f} MiB after a fifth of the requests, {after / 2**20:.0f} MiB after all")
    assert after <= 1.05 * before


def test_when_told_to_stop_no_accepted_request_is_dropped(toy_model: Path) -> None:
    """Twenty times, under load.

    Promise: Stopping.
    """
    for attempt in range(20):
        asked = Asked(attempt)
        with server("--direction", f"en-de={toy_model}") as (process, port):
            tally = asyncio.run(stop_under_load(process, port, asked, 0.5 + 0.05 * attempt))
            assert process.wait(60) == 0
        assert tally.wrong == []
        assert tally.answered


async def stop_under_load(
    process: subprocess.Popen[bytes], port: int, asked: Asked, after_seconds: float
) -> Tally:
    """Tell the server to stop while clients ask; each client ends when its connection is refused."""
    tally = Tally()
    clients = [
        asyncio.create_task(load(port, "/api/translate", 1, 3.0, asked, tally=tally)) for _ in range(32)
    ]
    await asyncio.sleep(after_seconds)
    os.kill(process.pid, signal.SIGTERM)
    for ended in await asyncio.gather(*clients, return_exceptions=True):
        # A new connection may be refused; a request on one that was accepted is answered.
        assert isinstance(ended, Tally | ConnectionRefusedError), repr(ended)
    return tally


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep each core of this process busy with something else."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in burning:
            each.kill()
            each.wait()


async def ask_after_a_start(port: int, seed: int) -> list[Tally]:
    """Eight clients for ten seconds, then two for five."""
    tallies = []
    for num_clients, seconds in ((8, 10.0), (2, 5.0)):
        asked = Asked(seed)
        tallies.append(await load(port, "/api/translate", num_clients, seconds, asked))
    return tallies


def test_two_clients_are_answered_after_any_start(toy_model: Path) -> None:
    """However busy the machine is while the server starts.

    `ALLYOUNEED_STARTS` is the number of starts (5), `ALLYOUNEED_STARTS_AT_ONCE` of servers at a time (1).
    """
    num_starts, at_once = (
        int(os.environ.get(f"ALLYOUNEED_STARTS{name}", num)) for name, num in (("", 5), ("_AT_ONCE", 1))
    )

    def start(number: int) -> list[Tally]:
        with server("--direction", f"en-de={toy_model}", "--workers", "2") as (_, port):
            return asyncio.run(ask_after_a_start(port, number))

    with busy_cores(), ThreadPoolExecutor(at_once) as threads:
        tallies = list(threads.map(start, range(num_starts)))
    for number, (eight, two) in enumerate(tallies):
        (refused, answered), (refused_of_two, answered_to_two) = (
            (len(each.refused), len(each.answered)) for each in (eight, two)
        )
        print(
            f"start {number}: {answered} answered and {refused} refused of eight clients;"
            f" {answered_to_two} and {refused_of_two} of two, in {Tally.percentile(two.answered, 0.5):.3f} s"
        )
    assert [each.wrong for both in tallies for each in both] == [[], []] * num_starts
    assert all(len(two.answered) >= 2 for _, two in tallies)
    assert [len(two.refused) for _, two in tallies] == [0] * num_starts
