"""How often each machine may ask."""

import math
import time

from allyouneed.serve.origins import is_loopback
from allyouneed.serve.refusal import Refusal

_BURST_SECONDS = 2.0
"""Time whose requests may come at once."""
_MOST_ADDRESSES = 10_000
"""Number of addresses above which those that have not asked for a while are forgotten."""


class Rates:
    """Limits the requests of each address; those from this machine, such as a proxy's, are not counted.

    Args:
        per_second: Maximum number of requests per second, in the long run.
    """

    def __init__(self, per_second: float) -> None:
        self._seconds_per_request = 1 / per_second
        self._burst_seconds = max(_BURST_SECONDS, self._seconds_per_request)
        self._paid_until: dict[str, float] = {}
        """Address -> time at which it will have waited for all its requests."""

    def require(self, address: str, *, is_claimed: bool = False) -> None:
        """Count a request.

        Args:
            address: Where it is from.
            is_claimed: Whether a header says so, which may claim to be from this machine.

        Raises:
            Refusal: The address has asked too often (429).
        """
        if not address or (is_loopback(address) and not is_claimed):
            return
        now = time.monotonic()
        wait = max(0.0, self._paid_until.get(address, now) - now) + self._seconds_per_request
        if wait > self._burst_seconds:
            seconds = str(math.ceil(wait - self._burst_seconds))
            message = f"too many requests from one machine; try again in {seconds} s"
            raise Refusal(429, "too_often", message, {"Retry-After": seconds})
        self._paid_until[address] = now + wait
        if len(self._paid_until) > _MOST_ADDRESSES:
            self._paid_until = {each: until for each, until in self._paid_until.items() if until > now}
            if len(self._paid_until) > _MOST_ADDRESSES:  # all have just asked: looking again costs more
                self._paid_until.clear()
