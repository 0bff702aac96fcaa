"""Stop requests: SIGTERM, SIGINT and SIGHUP are recorded until the trainer can stop cleanly."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

Result = TypeVar("Result")


class StopSignals:
    """While open, records the first stop signal in `received`; a second one, of any of them, acts at once.

    These are SIGTERM, SIGINT, and SIGHUP, unless `nohup` ignores it. The end of a session may send SIGHUP
    twice, so a repeat of it is ignored.

    Args:
        ignore_repeated: Whether to ignore a repeat of the same signal, as the sender may deliver it twice.
    """

    def __init__(self, *, ignore_repeated: bool = False) -> None:
        self._ignore_repeated = ignore_repeated
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._interruptible = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
            numbers = [signal.SIGTERM, signal.SIGINT]
            if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
                numbers.append(hang_up)
            self._previous = {number: signal.signal(number, self._note) for number in numbers}
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def interruptible(self, work: Callable[[], Result]) -> Result | None:
        """The result of long work, or None after a signal, earlier or meanwhile, which aborts it at once."""
        try:
            self._interruptible = True
            try:
                return None if self.received else work()
            finally:
                self._interruptible = False
        except _InterruptedError:
            return None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._restore()
        if self._ignore_repeated or number not in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._interrupt()

    def _interrupt(self) -> None:
        if self._interruptible:
            raise _InterruptedError(self._interrupt)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


class _InterruptedError(BaseException):
    """Aborts interruptible work; a BaseException, so that no `except Exception` catches it.

    `again` raises it once more if Python has discarded it, as in a destructor.
    """

    def __init__(self, again: Callable[[], None]) -> None:
        super().__init__()
        self.again = again
