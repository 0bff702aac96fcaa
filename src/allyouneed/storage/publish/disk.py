"""What a disk reports, as one line that names the path and, where it is full, the free space."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from allyouneed.errors import DiskError, system_fault

ASIDE = ".tmp-"
"""Follows a name in the names of what is written beside it."""
_NAME_BYTES, _NAME_BYTES_ASIDE = 255, 200
"""The longest name that file systems allow, and what is kept of a long one, so that what is added fits."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn whatever the disk or the file system reports in the block into a `DiskError` about `path`."""
    from safetensors import SafetensorError

    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has gone: no fault of the disk
    except OSError as error:
        remedy = f"; {_free_space(path)}" if error.errno in _NO_SPACE else ""
        raise DiskError(f"{_named(error, path)}: {system_fault(error)}{remedy}") from error
    except SafetensorError as error:
        raise DiskError(f"{path}: could not be written ({error}); {_free_space(path)}") from error


def require_space(path: Path, needed_bytes: int) -> None:
    """Refuse to begin what the disk that holds `path` has no room for.

    Raises:
        DiskError: Fewer than `needed_bytes` are free.
    """
    with disk_errors(path):
        if _free_bytes(path) < needed_bytes:
            raise DiskError(f"{path}: needs {needed_bytes:,} bytes; {_free_space(path)}")


def name_aside(name: str, mark: str) -> str:
    """The name of what is written beside a file or a directory.

    Args:
        name: Name of the file or directory. A long one is cut and gets a digest, which tells it from others
            that begin alike; one that is too long for any file stays as it is, so that its use is refused.
        mark: What tells several that are written beside it from each other.
    """
    raw = os.fsencode(name)
    if _NAME_BYTES_ASIDE < len(raw) <= _NAME_BYTES:
        name = f"{os.fsdecode(raw[:_NAME_BYTES_ASIDE])}-{hashlib.sha256(raw).hexdigest()[:16]}"
    return f"{name}{ASIDE}{mark}"


def set_mode(path: Path, mode: int) -> None:
    """Give a file other permissions where it has others: a file system that has none refuses every change."""
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def sync(path: Path) -> None:
    """Hand a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(error: OSError, path: Path) -> str:
    """The path that an error is about; `path` stands for all that is written aside for it."""
    name = str(error.filename or path)
    return str(path) if f"/{name_aside(path.name, '')}" in f"/{name}" else name


def _free_space(path: Path) -> str:
    return f"{_free_bytes(path):,} bytes are free there; make room or name another place"


def _free_bytes(path: Path) -> int:
    path = path.absolute()
    return shutil.disk_usage(next(p for p in (path, *path.parents) if p.is_dir())).free
