"""The process of a command: its standard streams, its environment variables, and its end by a signal."""

import contextlib
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.config.environment import is_home
from allyouneed.errors import DiskError, UserError, say

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from _typeshed import ReadableBuffer


def report(error: UserError) -> None:
    """Print an error on stderr, one line per message."""
    for line in error.lines():
        say(line)


def open_standard_streams() -> None:
    """Set up the three streams: UTF-8 and bare line feeds under any locale; file names keep their bytes.

    Closed streams become /dev/null, so that no file opened later takes their place. Reading or writing data
    there is still an error; messages that cannot be written are dropped.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # opens as the lowest free descriptor
        # Another program may have made it non-blocking: a read without data would look like the end.
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    messages = io.BufferedWriter(_Messages(2, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(messages, "utf-8", "backslashreplace", "\n", line_buffering=True)


class _Messages(io.FileIO):
    """Standard error, which libraries and the interpreter use too."""

    def write(self, content: "ReadableBuffer", /) -> int:
        """Write as much as possible, and drop the rest: there is no other place to report it."""
        with contextlib.suppress(OSError):
            if (written := super().write(content)) is not None:
                return written
        return len(memoryview(content).cast("B"))


_NARROWEST, _WIDEST = 20, 500
"""Range of terminal widths, in columns, for help and progress; at width 0 a library loops for ever."""


def correct_environment() -> None:
    """Unset an invalid HOME, and unset or clamp unusable terminal sizes."""
    if not is_home(os.environ.get("HOME", "")):
        os.environ.pop("HOME", None)  # otherwise libraries would create folders there
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get(name, "")):
            os.environ.pop(name, None)
    columns = int(os.environ.get("COLUMNS", "0")) or _columns_of_terminal()
    if columns and not _NARROWEST <= columns <= _WIDEST:
        os.environ["COLUMNS"] = str(min(max(columns, _NARROWEST), _WIDEST))


def require_working_directory() -> None:
    """Refuse to run in a deleted working directory, where libraries would crash."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise DiskError("the working directory has been deleted; change to one that is there") from None


def _columns_of_terminal() -> int:
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns
    return 0


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
