"""Admits requests by how long they would wait, awaits the work of other threads, and cancels it."""

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from allyouneed.errors import DataError, UserError
from allyouneed.inference.search_plan import Load
from allyouneed.serve.refusals import Refusal

Result = TypeVar("Result")

_MOST_CHARACTERS_AT_ONCE = 2_000
"""Longer texts are encoded in another thread, so that the event loop goes on."""
_SECONDS_REMEMBERED = 2.0
"""The speed is that of the last seconds of work, so that a wrong one is soon forgotten."""
_MOST_SECONDS_TO_RETRY = 5
"""A wrong speed must not send clients away for long: no work, no better speed."""
_SPREAD_SECONDS = 3


class Admission:
    """Estimates waiting times as the work that waits, divided by the speed of the workers while they work.

    Requests are refused above an amount of work, in the unit of `read`, which says how busy the workers are,
    and from an estimated wait on, unless a worker is idle.
    """

    def __init__(self, most_waiting: int, most_wait_seconds: float, read: Callable[[], Load]) -> None:
        self._most_waiting, self._most_wait_seconds, self._read = most_waiting, most_wait_seconds, read
        self._readings = deque([read()])
        self._expected: dict[object, int] = {}
        """Amount of work of each text that is admitted and not in the queue, as it is still encoded."""

    @contextlib.contextmanager
    def expecting(self, amounts: Sequence[int]) -> Iterator[Sequence[Callable[[], object]]]:
        """Keep places in the queue for texts with these amounts of work, at most until the end.

        Yields, for each text, a function to call when it is in the queue.
        """
        places = [object() for _ in amounts]
        self._expected.update(zip(places, amounts, strict=True))
        given_up = [partial(self._expected.pop, place, None) for place in places]
        try:
            yield given_up
        finally:
            for give_up in given_up:
                give_up()

    def require_room(self) -> None:
        """Refuse a request (429) if the queue is full, or if the request would wait too long."""
        load = self._read()
        seconds_per_amount = self._seconds_per_amount(load)
        num_waiting = load.num_waiting + sum(self._expected.values())
        wait = num_waiting * seconds_per_amount
        is_late = load.num_idle <= len(self._expected) and wait >= self._most_wait_seconds
        if is_late or num_waiting > self._most_waiting:
            least = min(max(1, math.ceil(wait - self._most_wait_seconds)), _MOST_SECONDS_TO_RETRY)
            seconds = least + random.randrange(_SPREAD_SECONDS)  # else all would come back at the same time
            message = f"the server is busy; try again in {seconds} s"
            raise Refusal(429, "queue_full", message, {"Retry-After": str(seconds)})

    def _seconds_per_amount(self, load: Load) -> float:
        """Time that all workers together need for a unit of work; 0 before they have done any."""
        if load.num_done > self._readings[-1].num_done:
            self._readings.append(load)
        while (
            len(self._readings) > 2
            and load.seconds_worked - self._readings[1].seconds_worked >= _SECONDS_REMEMBERED
        ):
            self._readings.popleft()
        first = self._readings[0]
        return (load.seconds_worked - first.seconds_worked) / max(1, load.num_done - first.num_done)


async def all_of(work: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all; the first that fails cancels the others."""
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def submitted(
    submit: Callable[[], Future[Result]],
    num_characters: int,
    when_queued: Callable[[], object] = lambda: None,
) -> Result:
    """The result of the work for a text that `submit` encodes and queues; cancelling this cancels the work.

    `when_queued` is called when the work is in the queue. `submit` is called in another thread for
    long texts. A wrong text or option is refused (422).
    """
    submit = raising_refusals(submit)
    is_long = num_characters > _MOST_CHARACTERS_AT_ONCE
    future = await _in_thread(submit) if is_long else submit()
    when_queued()
    return await asyncio.wrap_future(future)


class WorkThread:
    """Runs work in another thread, one piece at a time, and counts it."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._num_waiting = self._num_done = 0
        self._seconds_worked = 0.0

    def load(self) -> Load:
        """How busy the thread is; work is counted in pieces."""
        return Load(self._num_waiting, self._num_done, self._seconds_worked, int(not self._num_waiting))

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of work, which holds its turn until it ends, even if the caller is cancelled.

        An error of users that the work raises is a refusal (422).
        """
        self._num_waiting += 1
        try:
            await self._turn.acquire()
        except asyncio.CancelledError:
            self._num_waiting -= 1
            raise
        began = time.monotonic()
        working = asyncio.ensure_future(asyncio.to_thread(raising_refusals(work)))

        def end(working: asyncio.Future[Result]) -> None:
            self._turn.release()
            self._num_waiting, self._num_done = self._num_waiting - 1, self._num_done + 1
            self._seconds_worked += time.monotonic() - began
            if not working.cancelled():
                working.exception()  # else asyncio complains where nobody has waited for it

        working.add_done_callback(end)
        return await asyncio.shield(working)


def raising_refusals(work: Callable[[], Result]) -> Callable[[], Result]:
    """The same work, raising the errors of users as refusals."""

    def refusing() -> Result:
        try:
            return work()
        except DataError as error:
            raise Refusal(422, error.label.removeprefix("E-").lower(), error.messages[0]) from None
        except UserError as error:
            raise Refusal(422, "out_of_range", error.messages[0]) from None

    return refusing


async def _in_thread(submit: Callable[[], Future[Result]]) -> Future[Result]:
    """Call `submit` in another thread; its work is cancelled if nobody waits for it any more."""

    def cancel_result(submitting: asyncio.Future[Future[Result]]) -> None:
        if not submitting.cancelled() and submitting.exception() is None:
            submitting.result().cancel()

    submitting = asyncio.ensure_future(asyncio.to_thread(submit))
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        submitting.add_done_callback(cancel_result)
        raise
