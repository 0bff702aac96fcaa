"""Awaiting what other threads do, so that it stops, or is counted, when nobody waits any more."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from allyouneed.errors import DataError, UserError
from allyouneed.interfaces.server.refusal import Refusal

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
    submit: Callable[[], Future[Result]], num_characters: int, when_queued: Callable[[], None] = lambda: None
) -> Result:
    """The result of work that `submit` queues; cancelling this cancels the work.

    Args:
        submit: Encodes a text and queues it.
        num_characters: Length of the text.
        when_queued: Called when the work is in the queue.

    Raises:
        Refusal: The text or an option is wrong (422).
    """
    submit = in_refusals(submit)
    future = submit() if num_characters <= _MOST_CHARACTERS_AT_ONCE else await _in_thread(submit)
    when_queued()
    return await asyncio.wrap_future(future)


async def alone(work: Callable[[], Result], turn: asyncio.Semaphore) -> Result:
    """The result of work in another thread, which keeps its turn until it has ended, whoever still waits.

    Raises:
        Refusal: The work raised an error of users (422).
    """
    await turn.acquire()
    working = asyncio.ensure_future(asyncio.to_thread(in_refusals(work)))

    def end(working: asyncio.Future[Result]) -> None:
        turn.release()
        if not working.cancelled():
            working.exception()  # else asyncio complains where nobody has waited for it

    working.add_done_callback(end)
    return await asyncio.shield(working)


def in_refusals(work: Callable[[], Result]) -> Callable[[], Result]:
    """The same work, with the errors of users as refusals."""

    def refusing() -> Result:
        try:
            return work()
        except DataError as error:
            raise Refusal(422, error.label.removeprefix("E-").lower(), error.messages[0]) from None
        except UserError as error:
            raise Refusal(422, "out_of_range", error.messages[0]) from None

    return refusing


async def _in_thread(submit: Callable[[], Future[Result]]) -> Future[Result]:
    """What `submit` queues in another thread; the work is cancelled if nobody waits for it any more."""
    submitting = asyncio.ensure_future(asyncio.to_thread(submit))
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        submitting.add_done_callback(_cancel_result)
        raise


def _cancel_result(submitting: asyncio.Future[Future[Any]]) -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()
