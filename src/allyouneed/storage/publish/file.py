"""Reads regular files of bounded size, and replaces single files atomically."""

import contextlib
import errno
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import DiskError, ModelError, UsageError
from allyouneed.storage.publish.disk import disk_errors, name_aside, require_local, set_mode, sync

_MOST_LINKS = 40
_UNIQUE = re.compile("[0-9a-f]{32}")


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write into, which replaces `path` if the block succeeds.

    A symbolic link is kept, and the file it points to is replaced. A file keeps its permissions. Errors leave
    the old file as it is: those of `require_file`, and DiskError.
    """
    require_file(path)
    target = Path(os.path.realpath(path))
    with disk_errors(path):
        _remove_leftovers(target)
        with _locked_aside(target) as aside:
            try:
                yield aside
                if target.exists():
                    set_mode(aside, stat.S_IMODE(target.stat().st_mode))
                sync(aside)
                aside.replace(target)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        sync(target.parent)


@contextlib.contextmanager
def _locked_aside(target: Path) -> Iterator[Path]:
    """Yield an empty file beside `target`, locked: what a killed process has left is not."""
    while True:
        # No other process, of any host, makes a file of that name.
        aside = target.with_name(name_aside(target.name, uuid.uuid4().hex))
        with os.fdopen(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # else taken for a leftover before it was locked
                yield aside
                return


def _remove_leftovers(target: Path) -> None:
    """Remove the files that killed processes have left beside `target`, as far as that can be told."""
    beginning = name_aside(target.name, "")
    for path in target.parent.iterdir():
        is_aside = path.name.startswith(beginning) and _UNIQUE.fullmatch(path.name, len(beginning))
        if is_aside and path.is_file():
            with contextlib.suppress(OSError), path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace the content of the file at `path` by `text`, atomically; see `replaced_file`."""
    with replaced_file(path) as aside:
        aside.write_bytes(text.encode())


def require_file(path: Path) -> None:
    """Check that a file can be written to `path`, before any work is done for it.

    Raises:
        UsageError: The path is a device, a pipe or a socket, a URL, or empty.
        DiskError: The path is a directory, or its folder is missing or not writable.
    """
    require_local(path)
    with disk_errors(path):
        if path.name in ("", "-", ".."):
            raise UsageError(f"{str(path)!r} is not a file name; name one to write")
        if path.is_dir():
            raise DiskError(f"{path}: is a directory; name a file in it")
        require_regular(path, "name one to write")
        if _is_open_file(path):
            raise UsageError(f"{path}: is already open for writing; name another")
        folder = (Path(os.path.realpath(path)) if path.is_symlink() else path).parent
        if not folder.is_dir():
            raise DiskError(f"{path}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise DiskError(f"{path}: may not be written to {folder}; name another folder")


def require_regular(path: Path, remedy: str = "move it away") -> None:
    """Raise UsageError for a device, a pipe or a socket, whose opening may wait for ever.

    The path may be missing. Directories pass, as they cannot be opened anyway.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UsageError(f"{path}: is a pipe or a device, not a regular file; {remedy}")


def _is_open_file(path: Path) -> bool:
    """Whether the path leads through the open files of a process, as /dev/stdout does."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder.startswith("/proc/") and folder.endswith("/fd"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return False


MAX_WEIGHT_BYTES = 1 << 34
"""Number of bytes that a file of weights may have where it is read whole."""
_MAX_READ_BYTES = 1 << 27
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@contextlib.contextmanager
def open_regular(path: Path, max_bytes: int) -> Iterator[BinaryIO]:
    """Open a regular file of a model, or a link to one; raises ModelError if it is none, or larger."""
    with disk_errors(path):
        try:
            status = path.stat()  # before it is opened, which waits for pipes
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            fault = "is a link to a file that is missing" if path.is_symlink() else "no such file"
            raise ModelError(f"{path}: {fault}; take another copy of {path.parent}") from None
        _require(path, max_bytes, status)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            _require(path, max_bytes, os.fstat(file.fileno()))  # it may have been replaced meanwhile
            yield file


def read_published(path: Path, max_bytes: int | None = None) -> bytes:
    """Read a whole file of a published directory, by default of at most 128 MiB; see `open_regular`."""
    with open_regular(path, _MAX_READ_BYTES if max_bytes is None else max_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def _require(path: Path, max_bytes: int, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(
            f"{path}: is a folder, a pipe or a device, not a regular file; take another copy of {path.parent}"
        )
    if status.st_size > max_bytes:
        raise ModelError(
            f"{path}: has {status.st_size:,} bytes, more than the {max_bytes:,} that it may have; "
            f"take another copy of {path.parent}"
        )
