"""Variables of the environment, each read by one rule."""

import contextlib
import os
import re
from pathlib import Path

from allyouneed.errors import UsageError


def number_given(name: str, otherwise: int | None = None) -> int:
    """A number that `torchrun` sets.

    Args:
        name: The variable.
        otherwise: The number where the variable is not set; if not given, it has to be.

    Raises:
        UsageError: It is no number of nine digits at most, or `WORLD_SIZE` is 0.
    """
    given = os.environ.get(name, "" if otherwise is None else str(otherwise))
    if not re.fullmatch("[0-9]{1,9}", given) or (name == "WORLD_SIZE" and int(given) == 0):
        raise UsageError(
            f"{name}={given}: this variable of the environment is no such number as torchrun sets; unset it, "
            "or start the processes with torchrun"
        )
    return int(given)


def num_processes() -> int:
    """The number of processes that `torchrun` has started, 1 without it.

    Raises:
        UsageError: `WORLD_SIZE` is no such number.
    """
    return number_given("WORLD_SIZE", 1)


def is_home(name: str) -> bool:
    """Whether this is the absolute path of a directory, as `HOME` has to be."""
    with contextlib.suppress(OSError, ValueError):
        return Path(name).is_absolute() and Path(name).is_dir()
    return False
