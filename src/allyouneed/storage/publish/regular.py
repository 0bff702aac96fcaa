"""Reads files that a stranger may have made: regular files only, and no more bytes than they may have."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import ModelError
from allyouneed.storage.publish.disk import disk_errors

MAX_WEIGHT_BYTES = 1 << 34
"""Number of bytes that a file of weights may have where it is read whole."""
_MAX_READ_BYTES = 1 << 27
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@contextlib.contextmanager
def open_regular(path: Path, max_bytes: int) -> Iterator[BinaryIO]:
    """Open a regular file of a model, or a symbolic link to one, for reading.

    Args:
        path: The file.
        max_bytes: Number of bytes that it may have.

    Raises:
        ModelError: The file is missing, larger, or a folder, a pipe, a socket or a device.
        DiskError: There is no permission to read the file.
    """
    with disk_errors(path):
        _require(path, max_bytes, _status(path))  # before it is opened, which waits for pipes
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            _require(path, max_bytes, os.fstat(file.fileno()))  # it may have been replaced meanwhile
            yield file


def read_published(path: Path, max_bytes: int | None = None) -> bytes:
    """Read a whole file of a published directory, such as a tokeniser; see `open_regular`.

    Args:
        path: The file.
        max_bytes: Number of bytes that it may have; by default 128 MiB.

    Raises:
        ModelError: The file is missing, larger, or not a regular file.
        DiskError: There is no permission to read the file.
    """
    with open_regular(path, _MAX_READ_BYTES if max_bytes is None else max_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
    fault = "is a link to a file that is missing" if path.is_symlink() else "no such file"
    raise ModelError(f"{path}: {fault}; take another copy of {path.parent}")


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
