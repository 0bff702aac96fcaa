"""Reliable termination by SIGTERM or SIGINT, even if the signal arrives in a destructor."""

import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_TERMINATED = 128 + signal.SIGTERM
_SECONDS_UNTIL_AGAIN = 0.001


def end_by_signals() -> None:
    """Let SIGTERM unwind the program, as SIGINT does, so that no half-written files stay behind.

    Python discards an exception that a handler raises during a destructor or a weak-reference callback. In
    that case the signal is sent again.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    sys.unraisablehook = _send_again


def _send_again(forgotten: "UnraisableHookArgs") -> None:
    error = forgotten.exc_value
    again: Callable[[], None] | None
    if isinstance(error, KeyboardInterrupt):
        again = partial(signal.raise_signal, signal.SIGINT)
    elif isinstance(error, SystemExit) and error.code == _TERMINATED:
        again = partial(signal.raise_signal, signal.SIGTERM)
    else:
        again = getattr(error, "again", None)  # of an exception by which a handler aborts some work
    if again is None:
        sys.__unraisablehook__(forgotten)
        return
    # Not immediately: an exception raised here would be discarded too.
    signal.signal(signal.SIGALRM, lambda *_: again())
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_AGAIN)
