"""The user's cache directory."""

import os
import stat
from pathlib import Path

from allyouneed.config.variables import is_home


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
