"""The only errors that a user is meant to see: one line each, with a label and an exit code.

Every message says what is wrong, where (file, line, column or key), and what to do about it.
"""

import contextlib
import errno
import re
import sys
from collections.abc import Sequence
from typing import ClassVar

MAX_REPORTED = 20
"""How many messages of one error are printed before the rest is only counted."""


class UserError(Exception):
    """An error in what the user gave: printed without a traceback, and the program ends with `exit_code`.

    Args:
        messages: One message, or several of one kind (all missing files at once, say).
        label: A finer label than the class's, for the `error[LABEL]` in front of the message.
        settings: Names of settings that stand in the messages; the commands print them as their flags.
    """

    exit_code: ClassVar[int] = 2
    default_label: ClassVar[str] = "E-USAGE"

    def __init__(
        self, messages: str | Sequence[str], *, label: str | None = None, settings: Sequence[str] = ()
    ) -> None:
        self.messages = (messages,) if isinstance(messages, str) else tuple(messages)
        self.label = label or self.default_label
        self.settings = tuple(settings)
        super().__init__("\n".join(self.messages))

    def lines(self) -> list[str]:
        """What is printed on standard error: one line a message, at most `MAX_REPORTED`, then a count."""
        shown = [
            f"allyouneed: error[{self.label}]: {printable(in_flags(message, self.settings))}"
            for message in self.messages[:MAX_REPORTED]
        ]
        hidden = len(self.messages) - len(shown)
        return [*shown, f"allyouneed: error[{self.label}]: ... and {hidden} more"] if hidden else shown


class UsageError(UserError):
    """A wrong option, setting or configuration (exit code 2)."""


class DataError(UserError):
    """Input data that cannot be used (exit code 3)."""

    exit_code = 3
    default_label = "E-DATA"


class ModelError(UserError):
    """A model or checkpoint that is damaged or does not fit (exit code 4)."""

    exit_code = 4
    default_label = "E-MODEL"


class DivergedError(UserError):
    """Training reached a loss or gradient that is not finite (exit code 5)."""

    exit_code = 5
    default_label = "E-DIVERGED"


class DiskError(UserError):
    """A full or failing disk, or a missing permission (exit code 6)."""

    exit_code = 6
    default_label = "E-DISK"


class ResourceError(UserError):
    """Not enough memory (exit code 7)."""

    exit_code = 7
    default_label = "E-MEMORY"


class LockedError(UserError):
    """The directory is in use by another run (exit code 8)."""

    exit_code = 8
    default_label = "E-LOCKED"


class InternalError(UserError):
    """A fault of the program itself, which the user is asked to report (exit code 1)."""

    exit_code = 1
    default_label = "E-INTERNAL"


_OUT_OF_MEMORY = ("DefaultCPUAllocator: can't allocate", "out of memory", "ALLOC_FAILED", "std::bad_alloc")
"""How torch's allocators, CUDA, its libraries and C++ say it; only the second has a type of its own."""

SOME_FAILED_EXIT_CODE = 9
"""All that was asked for was gone through, but some of its lines, or rows of an experiment, failed."""


_LONGEST_MESSAGE = 1_200
"""Characters of a message; of a longer one, which repeats what it was given, the middle is left out."""


_REMEDIES = {
    errno.EACCES: "change its permissions, or name another place",
    errno.EPERM: "change its permissions, or name another place",
    errno.EROFS: "name a place on another one",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path, part of which is a file",
    errno.EISDIR: "name a file",
    errno.EEXIST: "name another place",
    errno.ELOOP: "check where the links lead",
    errno.ENAMETOOLONG: "name a shorter one",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.EIO: "check the disk",
}
"""What to do about an error of the system."""


def system_fault(error: OSError) -> str:
    """What the system reports, and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}{f'; {remedy}' if remedy else ''}"


def printable(message: str) -> str:
    """The message with control characters escaped, so that no input can drive the terminal or add a line."""
    if len(message) > _LONGEST_MESSAGE:
        half = _LONGEST_MESSAGE // 2
        left_out = f" ... ({len(message) - 2 * half:,} characters) ... "
        return printable(message[:half]) + left_out + printable(message[-half:])
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)


def in_flags(message: str, settings: Sequence[str]) -> str:
    """The message with these settings as the flags of commands: `beam_size` becomes `--beam-size`."""
    if not settings:
        return message
    names = "|".join(map(re.escape, settings))
    return re.sub(
        rf"(?<![\w./-])({names})(?![\w/-])", lambda found: "--" + found[0].replace("_", "-"), message
    )


def say(line: str) -> None:
    """Write a line on standard error, if that is there: a message never stops the work that it is about."""
    if sys.stderr is not None:  # print would take standard output
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch, on whatever device, has asked for more memory than there is."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)
