"""Decides whether a request may join the queue, from how long it would wait."""

import contextlib
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from allyouneed.inference.search_plan import Load
from allyouneed.serve.refusals import Refusal

_SECONDS_REMEMBERED = 2.0
"""The speed is that of the last seconds of work, so that a wrong one is soon forgotten."""
_MOST_SECONDS_TO_RETRY = 5
"""A wrong speed must not send clients away for long: no work, no better speed."""
_SPREAD_SECONDS = 3


class Admission:
    """Estimates waiting times as the work that waits, divided by the speed of the workers while they work.

    Args:
        most_waiting: Amount of work, in the unit of `read`, above which requests are refused.
        most_wait_seconds: Estimated wait from which on requests are refused, unless a worker is idle.
        read: How busy the workers are now.
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
