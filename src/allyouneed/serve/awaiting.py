"""Awaits the work of other threads, and cancels it when nobody waits for it any more."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from allyouneed.errors import DataError, UserError
from allyouneed.inference.search_plan import Load
from allyouneed.serve.refusals import Refusal

Result = TypeVar("Result")

_MOST_CHARACTERS_AT_ONCE = 2_000
"""Longer texts are encoded in another thread, so that the event loop goes on."""


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

    `when_queued` is called when the work is in the queue. A wrong text or option is refused (422).
    """
    submit = raising_refusals(submit)
    future = submit() if num_characters <= _MOST_CHARACTERS_AT_ONCE else await _in_thread(submit)
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
    submitting = asyncio.ensure_future(asyncio.to_thread(submit))
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        submitting.add_done_callback(_cancel_result)
        raise


def _cancel_result(submitting: asyncio.Future[Future[Any]]) -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()
