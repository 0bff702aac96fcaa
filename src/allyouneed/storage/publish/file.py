"""Replaces single files atomically."""

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from allyouneed.errors import DiskError, UsageError
from allyouneed.storage.publish.disk import disk_errors, name_aside, set_mode, sync
from allyouneed.storage.urls import require_local

_MOST_LINKS = 40


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write into, which replaces `path` if the block succeeds.

    A symbolic link is kept, and the file it points to is replaced. A file keeps its permissions.

    Raises:
        UsageError: `path` is a pipe or a device, or not a valid name for a file.
        DiskError: The file could not be written; the old file is unchanged.
    """
    require_file(path)
    target = Path(os.path.realpath(path))
    aside = target.with_name(
        name_aside(target.name, uuid.uuid4().hex)
    )  # no other process, of any host, has it
    with disk_errors(path):
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
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
    """Refuse a path that exists but is not a regular file: opening a pipe may wait for ever.

    Args:
        path: A path, which may be missing; directories pass, as they cannot be opened anyway.
        remedy: Advice for the message.

    Raises:
        UsageError: The path is a device, a pipe or a socket.
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
