"""Futures made of other futures."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import TypeVar

Part = TypeVar("Part")
Whole = TypeVar("Whole")


def gather(parts: Sequence[Future[Part]], join: Callable[[list[Part]], Whole]) -> Future[Whole]:
    """Make a future of the results of others.

    It fails when one of them or `join` fails. Cancelling it, or the failure of a part, cancels the parts.

    Args:
        parts: Futures, at least one, that stay pending until they are done, as those of `Scheduler`.
        join: Makes the result from the results of the parts, in the thread that completes the last part.
    """
    whole: Future[Whole] = Future()
    missing, is_settled, lock = len(parts), False, Lock()

    def cancel_parts() -> None:
        for part in parts:
            part.cancel()

    def part_is_done(part: Future[Part]) -> None:
        nonlocal missing, is_settled
        failure = None if part.cancelled() else part.exception()
        with lock:  # several parts may be done at the same time
            missing -= 1
            if is_settled or not (part.cancelled() or failure or missing == 0):
                return
            is_settled = True
        # Without the lock from here on, as callbacks may want other locks, whose owners may want this one.
        if part.cancelled():
            whole.cancel()
        elif failure is not None:
            settle(whole, failure=failure)
            cancel_parts()
        else:
            try:
                settle(whole, join([each.result() for each in parts]))
            except Exception as error:
                settle(whole, failure=error)

    whole.add_done_callback(lambda _: cancel_parts() if whole.cancelled() else None)
    for part in parts:
        part.add_done_callback(part_is_done)
    return whole


def settle(future: Future[Whole], result: Whole | None = None, failure: BaseException | None = None) -> None:
    """Give a pending future its result or its exception, unless it is already done or cancelled."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)  # type: ignore[arg-type]
