"""Locks that name their holder. The system releases them when the holder ends, for whatever reason."""

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
    """Open and lock the file at `path` until it is closed; `sign` records this process in it.

    Messages name the `place` that the lock protects, and the `work` of the process that holds it.

    Raises:
        LockedError: Another process holds the lock.
        UsageError: The file is not a lock but belongs to the user.
        FileNotFoundError: The previous holder has just removed the lock.
    """
    require_regular(path)
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b", buffering=0)
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


def lock_output(descriptor: int, path: Path) -> None:
    """Lock an open file or directory until it is closed; raises LockedError if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(f"{path}: another run is writing it; wait for it, or stop it") from None


def require_unlocked(path: Path, place: Path, work: str) -> None:
    """Refuse a lock that another process holds, as `take_lock` does, by sharing it for a moment.

    A process that wants the lock at that moment still gets it, as `take_lock` tries again after a while.
    """
    if path.is_file():
        with path.open("rb") as lock:
            _flock(lock, fcntl.LOCK_SH, place, work)


def sign(lock: BinaryIO, more: str = "") -> None:
    """Record the holder in its lock: process and host, then a line with `more`.

    It is overwritten, then truncated: if this process is killed in between, its leftovers are still known.
    """
    lock.seek(0)
    lock.write(f"{os.getpid()} on {os.uname().nodename}\n{more}\n".encode())
    lock.truncate()


def lock_holder(lock: BinaryIO) -> str:
    """The holder recorded in a lock; empty if there is none."""
    lock.seek(0)
    return lock.readline(1_000).decode(errors="replace").strip()


def same_file(lock: BinaryIO, path: Path) -> bool:
    """Whether `path` still refers to the open file."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _flock(lock: BinaryIO, how: int, place: Path, work: str) -> None:
    for pause in (_SECONDS_TO_SIGN, 0):  # the holder may have taken the lock just now, or only look at it
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return
    holder = lock_holder(lock) or "unknown"
    raise LockedError(f"{place}: process {holder} is {work}; wait for it, or name another folder")
