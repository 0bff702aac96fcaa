"""What the program says: data on standard output, talk on standard error, UTF-8 whatever the locale."""

import dataclasses
import io
import sys

from allyouneed.errors import printable


@dataclasses.dataclass
class Talk:
    """How much is said on standard error besides errors."""

    quiet: bool = False
    """`--quiet` was given: no notices, no progress."""


talk = Talk()


def notice(message: str) -> None:
    """Say one line on standard error, unless `--quiet` was given."""
    if not talk.quiet:
        print(f"allyouneed: {printable(message)}", file=sys.stderr, flush=True)


def use_utf8() -> None:
    """Write UTF-8 and bare line feeds whatever the locale and the platform; names of files as they came."""
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")
