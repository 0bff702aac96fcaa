"""Output of the program: data to stdout, messages to stderr, in UTF-8 under any locale."""

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from allyouneed.errors import UserError, say

if TYPE_CHECKING:
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
