"""Environment variables and their validation."""

import contextlib
import os
import re
from pathlib import Path

from allyouneed.errors import UsageError


def number_given(name: str, otherwise: int | None = None) -> int:
    """Read a number from an environment variable that `torchrun` sets.

    Args:
        name: Name of the variable.
        otherwise: Value if the variable is not set; default: the variable must be set.

    Raises:
        UsageError: The value is not a number of at most nine digits, or `WORLD_SIZE` is 0.
    """
    given = os.environ.get(name, "" if otherwise is None else str(otherwise))
    if not re.fullmatch("[0-9]{1,9}", given) or (name == "WORLD_SIZE" and int(given) == 0):
        raise UsageError(
            f"{name}={given}: this environment variable is not a number as torchrun sets it; unset it, "
            "or start the processes with torchrun"
        )
    return int(given)


def num_processes() -> int:
    """The number of processes that `torchrun` started; 1 without it.

    Raises:
        UsageError: `WORLD_SIZE` is not a positive number of at most nine digits.
    """
    return number_given("WORLD_SIZE", 1)


def is_home(name: str) -> bool:
    """Whether `name` is the absolute path of a directory, as `HOME` must be."""
    with contextlib.suppress(OSError, ValueError):
        return Path(name).is_absolute() and Path(name).is_dir()
    return False
