"""Awaiting what other threads do."""

import asyncio
import threading
from concurrent.futures import Future

import pytest
from tests.patience import wait_in_loop

from allyouneed.errors import DataError, UsageError
from allyouneed.inference.search_plan import Load
from allyouneed.serve.awaiting import WorkThread, all_of, submitted
from allyouneed.serve.refusals import Refusal


@pytest.mark.parametrize("num_characters", [10, 3_000])
def test_a_result_is_awaited_and_errors_of_users_are_refusals(num_characters: int) -> None:
    queued: list[str] = []

    def submit() -> Future[int]:
        future: Future[int] = Future()
        threading.Timer(0.01, future.set_result, [7]).start()
        return future

    assert asyncio.run(submitted(submit, num_characters, lambda: queued.append("queued"))) == 7
    assert queued == ["queued"]
    for error in (DataError("long", label="E-LONG"), UsageError("low")):

        def fail(error: Exception = error) -> Future[int]:
            raise error

        with pytest.raises(Refusal, match=str(error)) as caught:
            asyncio.run(submitted(fail, num_characters))
        assert (caught.value.status, caught.value.label) in ((422, "long"), (422, "out_of_range"))


def test_work_is_cancelled_if_its_client_leaves_before_it_is_queued() -> None:
    begun, may_end = threading.Event(), threading.Event()
    future: Future[None] = Future()

    def submit() -> Future[None]:
        begun.set()
        may_end.wait()
        return future

    async def leave() -> None:
        asking = asyncio.create_task(submitted(submit, 3_000))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        may_end.set()
        await wait_in_loop(future.cancelled)

    asyncio.run(leave())


def test_work_keeps_its_turn_when_its_client_has_left() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()

    async def leave() -> None:
        turns = WorkThread()
        first = asyncio.create_task(turns.run(work))
        await asyncio.to_thread(begun.wait)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second, third = (asyncio.create_task(turns.run(lambda: 7)) for _ in range(2))
        await asyncio.sleep(0.05)
        assert not second.done()
        assert turns.load() == Load(num_waiting=3, num_done=0, seconds_worked=0.0, num_idle=0)
        third.cancel()
        may_end.set()
        assert await second == 7
        assert turns.load()[:2] == (0, 2)
        assert turns.load().num_idle == 1
        assert turns.load().seconds_worked > 0.05

    asyncio.run(leave())


def test_the_first_failure_ends_the_others() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise Refusal(422, "label", "message")

    with pytest.raises(Refusal):
        asyncio.run(all_of([wait(), fail()]))
    assert ended == ["cancelled"]
