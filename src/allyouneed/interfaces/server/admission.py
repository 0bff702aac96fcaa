"""Decides whether a request may join the queue, from how long it would wait."""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator

from allyouneed.interfaces.server.refusal import Refusal

_SECONDS_PER_READING = 0.25
_SECONDS_REMEMBERED = 4.0
"""Time constant of the mean of readings: searches end in lumps, as those that began together do."""
_SPREAD_SECONDS = 3
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
        self._seconds = _SECONDS_REMEMBERED / 2
        self._tokens = speed * self._seconds
        self._since, self._done_then = time.monotonic(), 0
        self._was_busy = False
        self._num_expected = 0
        """Tokens of admitted requests that are not in the queue: their texts are still encoded, or their work
        is of another kind, such as attention."""

    @contextlib.contextmanager
    def admitted(self, num_tokens: int, num_queued: int, num_done: int) -> Iterator[Callable[[int], None]]:
        """Require room for a request, and keep it while its tokens are not in the queue.

        Args:
            num_tokens: Number of tokens of the request.
            num_queued: Number of tokens in the queue.
            num_done: Number of tokens done since the start.

        Yields:
            Takes the number of tokens that now are in the queue.

        Raises:
            Refusal: The queue is full (429).
        """
        self.require_room(num_tokens, num_queued, num_done)
        num_left = num_tokens
        self._num_expected += num_tokens

        def arrived(num: int) -> None:
            nonlocal num_left
            num_left -= num
            self._num_expected -= num

        try:
            yield arrived
        finally:
            arrived(num_left)

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
        num_queued += self._num_expected
        wait = num_queued / self._speed
        if num_queued and (num_queued + num_tokens > self._most_tokens or wait > self._most_wait_seconds):
            least = max(1, math.ceil(wait - self._most_wait_seconds))
            seconds = least + random.randrange(_SPREAD_SECONDS)  # else all would come back at the same time
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
        seconds, tokens = now - self._since, num_done - self._done_then
        is_telling = num_queued > _TELLING_SHARE * self._most_wait_seconds * self._speed
        if self._was_busy and (is_telling or tokens > self._speed * seconds):
            kept = math.exp(-seconds / _SECONDS_REMEMBERED)
            self._seconds = kept * self._seconds + seconds
            self._tokens = kept * self._tokens + tokens
        self._since, self._done_then, self._was_busy = now, num_done, num_queued > 0

    @property
    def _speed(self) -> float:
        """Tokens per second; at least a token."""
        return max(1.0, self._tokens / self._seconds)
