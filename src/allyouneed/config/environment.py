"""The environment of the process: variables that `torchrun` sets, the home and the cache directory."""

import contextlib
import os
import re
import stat
from pathlib import Path

from allyouneed.errors import UsageError


def number_given(name: str, otherwise: int | None = None) -> int:
    """Read a number from an environment variable that `torchrun` sets; without `otherwise`, it must be set.

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
    """The number of processes that `torchrun` started, as `number_given` reads it; 1 without it."""
    return number_given("WORLD_SIZE", 1)


def is_home(name: str) -> bool:
    """Whether `name` is the absolute path of a directory, as `HOME` must be."""
    with contextlib.suppress(OSError, ValueError):
        return Path(name).is_absolute() and Path(name).is_dir()
    return False


def user_cache() -> Path | None:
    """The cache directory of this program, which only the user can write to; None if there cannot be one."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = Path.home()
        base = given if given.is_absolute() else home / ".cache"
        if base != given and not is_home(os.environ.get("HOME", str(home))):
            return None
        folder = base / "allyouneed"
        for each in (base, folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or a read-only file system
        return None
    return folder if is_ours(folder) and os.access(folder, os.W_OK) else None


def is_ours(path: Path) -> bool:
    """Whether the path exists and only this user can have created or changed it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
