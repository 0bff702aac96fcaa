"""Decides whether a request may join the queue, from how long it would wait."""

import math
import time

from allyouneed.interfaces.server.refusal import Refusal

_SECONDS_PER_READING = 0.25
_WEIGHT_OF_HIGHER, _WEIGHT_OF_LOWER = 0.6, 0.3
"""Weights of a new reading of the speed."""
_TELLING_SHARE = 0.5
"""Share of the maximum wait from which readings may lower the speed: an idle server shows a low one."""


class Admission:
    """Estimates waiting times from the speed, in tokens per second, at which work is done.

    Args:
        most_tokens: Maximum number of tokens in the queue.
        most_wait_seconds: Maximum estimated wait.
        speed: Tokens per second, measured before.
    """

    def __init__(self, most_tokens: int, most_wait_seconds: float, speed: float) -> None:
        self._most_tokens, self._most_wait_seconds = most_tokens, most_wait_seconds
        self._speed = speed
        self._since, self._done_then = time.monotonic(), 0
        self._was_busy = False

    def require_room(self, num_tokens: int, num_queued: int, num_done: int) -> None:
        """Refuse a request if it would wait too long; an empty queue takes any.

        Args:
            num_tokens: Number of tokens of the request.
            num_queued: Number of tokens in the queue.
            num_done: Number of tokens done since the start.

        Raises:
            Refusal: The queue is full (429).
        """
        self.observe(num_queued, num_done)
        wait = num_queued / self._speed
        if num_queued and (num_queued + num_tokens > self._most_tokens or wait > self._most_wait_seconds):
            seconds = max(1, math.ceil(wait - self._most_wait_seconds))
            raise Refusal(
                429,
                "queue_full",
                f"the server is busy; try again in {seconds} s",
                {"Retry-After": str(seconds)},
            )

    def observe(self, num_queued: int, num_done: int) -> None:
        """Read the speed; the arguments are those of `require_room`."""
        now = time.monotonic()
        if now - self._since < _SECONDS_PER_READING:
            self._was_busy = self._was_busy and num_queued > 0
            return
        speed = (num_done - self._done_then) / (now - self._since)
        is_telling = num_queued > _TELLING_SHARE * self._most_wait_seconds * self._speed
        if self._was_busy and (speed > self._speed or is_telling):
            weight = _WEIGHT_OF_HIGHER if speed > self._speed else _WEIGHT_OF_LOWER
            self._speed += weight * (speed - self._speed)
        self._since, self._done_then, self._was_busy = now, num_done, num_queued > 0
