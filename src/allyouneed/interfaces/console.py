"""What the program says: data on standard output, talk on standard error, UTF-8 whatever the locale."""

import contextlib
import dataclasses
import io
import os
import sys
from typing import TYPE_CHECKING

from allyouneed.errors import UserError, printable, say

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@dataclasses.dataclass
class Talk:
    """How much is said on standard error besides errors."""

    quiet: bool = False
    """`--quiet` was given: no notices, no progress."""


talk = Talk()


def notice(message: str) -> None:
    """Say one line on standard error, unless `--quiet` was given."""
    if not talk.quiet:
        say(f"allyouneed: {printable(message)}")


def report(error: UserError) -> None:
    """Say on standard error what has gone wrong, a line for each message."""
    for line in error.lines():
        say(line)


def open_standard_streams() -> None:
    """Make the three streams fit for use: UTF-8 and bare line feeds whatever the locale, names as they came.

    Those that are closed become /dev/null, so that no file which is opened later is taken for one of them. To
    read or write it is still an error where it is data; messages that cannot be written are dropped.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest number that is free
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    messages = io.BufferedWriter(_Messages(2, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(messages, "utf-8", "backslashreplace", "\n", line_buffering=True)


class _Messages(io.FileIO):
    """Standard error, on which libraries and the interpreter write, too."""

    def write(self, content: "ReadableBuffer", /) -> int:
        """Write what can be written; the rest is dropped, as nobody could be told about it."""
        with contextlib.suppress(OSError):
            if (written := super().write(content)) is not None:
                return written
        return len(memoryview(content).cast("B"))
