"""Errors meant for the user: one line per message, with a label and an exit code.

Every message says what is wrong, where (file, line, column or key), and what to do about it.
"""

import contextlib
import dataclasses
import errno
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

_LONGEST_SECONDS = 1_000 * 365.25 * 24 * 3600
MAX_REPORTED = 20
"""Maximum number of messages printed for one error; the rest are only counted."""


class UserError(Exception):
    """An error for the user: printed without a traceback; the program then exits with `exit_code`.

    Args:
        messages: One message, or several of one kind (all missing files at once, for example).
        label: Label for the `error[LABEL]` prefix; default: the label of the class.
        settings: Names of settings that occur in the messages; commands print them as flags.
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
        """The lines for stderr: one per message, up to `MAX_REPORTED`, then a count of the rest."""
        shown = [
            f"allyouneed: error[{self.label}]: {printable(in_flags(message, self.settings))}"
            for message in self.messages[:MAX_REPORTED]
        ]
        hidden = len(self.messages) - len(shown)
        return [*shown, f"allyouneed: error[{self.label}]: ... and {hidden} more"] if hidden else shown


class UsageError(UserError):
    """An invalid option, setting or configuration (exit code 2)."""


class DataError(UserError):
    """Input data that cannot be used (exit code 3)."""

    exit_code = 3
    default_label = "E-DATA"


class ModelError(UserError):
    """A damaged or incompatible model or checkpoint (exit code 4)."""

    exit_code = 4
    default_label = "E-MODEL"


class DivergedError(UserError):
    """A loss or gradient in training that is not finite (exit code 5)."""

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
    """A directory in use by another process (exit code 8)."""

    exit_code = 8
    default_label = "E-LOCKED"


class InternalError(UserError):
    """A bug in the program, which the user is asked to report (exit code 1)."""

    exit_code = 1
    default_label = "E-INTERNAL"


_OUT_OF_MEMORY = ("DefaultCPUAllocator: can't allocate", "out of memory", "ALLOC_FAILED", "std::bad_alloc")
"""Messages of torch's allocators, CUDA, its libraries and C++; only the second has its own exception type."""

SOME_FAILED_EXIT_CODE = 9
"""The command went through all its input, but some lines, or some rows of an experiment, failed."""


_LONGEST_MESSAGE = 1_200
"""Maximum characters of a message; longer ones, which quote their input, lose the middle."""


_REMEDIES = {
    errno.EACCES: "change its permissions, or name another place",
    errno.EPERM: "change its permissions, or name another place",
    errno.EROFS: "name a place on a writable file system",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one of its folders is a file",
    errno.EISDIR: "name a file",
    errno.EEXIST: "name another place",
    errno.ELOOP: "check for symbolic links that lead in a circle",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`)",
    errno.EIO: "check the disk",
}
"""System error -> remedy for the user."""


def system_fault(error: OSError) -> str:
    """The system's description of an error, and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}{f'; {remedy}' if remedy else ''}"


def printable(message: str) -> str:
    """Escape the control characters of a message, so that no input can drive the terminal or add a line."""
    if len(message) > _LONGEST_MESSAGE:
        half = _LONGEST_MESSAGE // 2
        left_out = f" ... ({len(message) - 2 * half:,} characters) ... "
        return printable(message[:half]) + left_out + printable(message[-half:])
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)


def in_flags(message: str, settings: Sequence[str]) -> str:
    """Replace the names of settings in a message by the flags of the commands.

    For example, `beam_size` becomes `--beam-size`.
    """
    if not settings:
        return message
    names = "|".join(map(re.escape, settings))
    return re.sub(
        rf"(?<![\w./-])({names})(?![\w/-])", lambda found: "--" + found[0].replace("_", "-"), message
    )


def say(line: str) -> None:
    """Print a line to stderr, if possible; failing to print it never stops the work it reports on."""
    if sys.stderr is not None:  # print would fall back to stdout
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Talk:
    """Verbosity on stderr; errors are always shown."""

    quiet: bool = False
    """Whether `--quiet` was given: no notices, no progress."""


talk = Talk()


def notice(message: str, settings: Sequence[str] = ()) -> None:
    """Print a line on stderr, unless `--quiet` was given; `settings` in it become flags."""
    if not talk.quiet:
        say(f"allyouneed: {printable(in_flags(message, settings))}")


def duration(seconds: float) -> str:
    """A time as messages tell it, such as `1 day, 2:03:04` or `over 1,000 years`."""
    if not seconds < _LONGEST_SECONDS:
        return "over 1,000 years"
    return str(timedelta(seconds=round(seconds)))


def counted(*counts: float, unit: str) -> str:
    """Numbers of units, named in the plural, such as `3/1,200 updates` or `1 line`."""
    figures = "/".join(f"{count:,.0f}" if count >= 1000 else f"{count:.4g}" for count in counts)
    return f"{figures} {unit.removesuffix('s') if counts[-1] == 1 else unit}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch, on any device, ran out of memory."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)
