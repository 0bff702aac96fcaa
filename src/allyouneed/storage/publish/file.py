"""Single files that are replaced at one stroke."""

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from allyouneed.errors import DiskError, UsageError
from allyouneed.storage.publish.disk import disk_errors, name_aside, set_mode, sync

_MOST_LINKS = 40


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield an empty file to write into; it takes the place of `path` when the block has succeeded.

    A symbolic link stays, and the file that it points to is replaced. A file keeps its permissions.

    Raises:
        UsageError: `path` is a pipe or a device, or no name of a file.
        DiskError: It could not be written; the file at `path` is as it was.
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
    """Replace the file at `path` by one that holds `text`, at one stroke; otherwise as `replaced_file`."""
    with replaced_file(path) as aside:
        aside.write_bytes(text.encode())


def require_file(path: Path) -> None:
    """Refuse what no file can be written to, before any work is done for it.

    Raises:
        UsageError: It is a device, a pipe or a socket, or no name at all.
        DiskError: It is a directory, or its folder is missing, or may not be written to.
    """
    with disk_errors(path):
        if path.name in ("", "-", ".."):
            raise UsageError(f"{str(path)!r} is no name of a file; name one to write")
        if path.is_dir():
            raise DiskError(f"{path}: is a directory; name a file in it")
        require_regular(path, "name one to write")
        if _is_open_file(path):
            raise UsageError(f"{path}: is a file that is open already, and may be written to; name another")
        folder = (Path(os.path.realpath(path)) if path.is_symlink() else path).parent
        if not folder.is_dir():
            raise DiskError(f"{path}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise DiskError(f"{path}: may not be written to {folder}; name another folder")


def require_regular(path: Path, remedy: str = "move it away") -> None:
    """Refuse what is there but is no regular file: to open a pipe is to wait, perhaps for ever.

    Args:
        path: A file, which may be missing, or a directory, which cannot be opened anyway.
        remedy: What to do about it, for the message.

    Raises:
        UsageError: It is a device, a pipe or a socket.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UsageError(f"{path}: is a pipe or a device, no regular file; {remedy}")


def _is_open_file(path: Path) -> bool:
    """Whether its links lead through the open files of a process, as those of /dev/stdout do."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder.startswith("/proc/") and folder.endswith("/fd"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return False
