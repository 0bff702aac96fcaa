"""Locks that name their holder, and that the system releases when the holder ends, however it ends."""

import fcntl
import os
import re
import time
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import LockedError, UsageError
from allyouneed.storage.publish.file import require_regular

_SECONDS_TO_SIGN = 0.2
_SIGNATURE = re.compile(r"\d+ on .+")


def take_lock(path: Path, place: Path, work: str) -> BinaryIO:
    """The open file at `path`, locked until it is closed; `sign` records this process in it.

    Args:
        path: The lock file; it is made where it is missing.
        place: What it protects, for the message.
        work: What a process that holds it is doing, for the message.

    Raises:
        LockedError: Another process holds it.
        UsageError: It is no lock but a file of the user.
        FileNotFoundError: Its last holder has removed it just now.
    """
    require_regular(path)
    lock = path.open("a+b", buffering=0)
    try:
        _flock(lock, fcntl.LOCK_EX, place, work)
        if not same_file(lock, path):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if (holder := lock_holder(lock)) and not _SIGNATURE.fullmatch(holder):
            raise UsageError(f"{path}: is in the way and was not made by allyouneed; move or rename it")
    except BaseException:
        lock.close()
        raise
    return lock


def require_unlocked(path: Path, place: Path, work: str) -> None:
    """Refuse, as `take_lock` does, a lock that another process holds.

    The system tells whether a lock is held only to those who ask for it, so it is shared for a moment. Who
    wants to take it meanwhile is not refused, as `take_lock` tries again after longer than that.
    """
    if path.is_file():
        with path.open("rb") as lock:
            _flock(lock, fcntl.LOCK_SH, place, work)


def sign(lock: BinaryIO, more: str = "") -> None:
    """Record in a lock that is held who holds it: process and host, then a line of `more`."""
    lock.truncate(0)
    lock.write(f"{os.getpid()} on {os.uname().nodename}\n{more}\n".encode())


def lock_holder(lock: BinaryIO) -> str:
    """Who has signed a lock; empty where nobody has."""
    lock.seek(0)
    return lock.readline(1_000).decode(errors="replace").strip()


def same_file(lock: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _flock(lock: BinaryIO, how: int, place: Path, work: str) -> None:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_SECONDS_TO_SIGN)  # the holder may have taken the lock just now, or only look at it
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = lock_holder(lock) or "unknown"
            raise LockedError(
                f"{place}: process {holder} is {work}; wait for it, or name another folder"
            ) from None
