"""The end of the process by SIGTERM or SIGINT, which no destructor may swallow."""

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_TERMINATED = 128 + signal.SIGTERM
_SECONDS_UNTIL_AGAIN = 0.001


def end_by_signals() -> None:
    """Let SIGTERM unwind the program, as SIGINT does, so that nothing half-written stays.

    What a handler raises is forgotten where it comes while Python runs a destructor or the callback of a weak
    reference. The signal is sent once more then.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    sys.unraisablehook = _send_again


def _send_again(forgotten: "UnraisableHookArgs") -> None:
    error = forgotten.exc_value
    if isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(error, SystemExit) and error.code == _TERMINATED:
        number = signal.SIGTERM
    else:
        sys.__unraisablehook__(forgotten)
        return
    # Not at once: what is raised here would be forgotten, too.
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_UNTIL_AGAIN)
