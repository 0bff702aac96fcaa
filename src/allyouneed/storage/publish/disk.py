"""Paths on the local disk, URLs among them, and errors of the disk in one line."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from allyouneed.errors import DiskError, UsageError, system_fault

ASIDE = ".tmp-"
"""Suffix of files and directories that are written beside another."""
_NAME_BYTES, _NAME_BYTES_ASIDE = 255, 200
"""Maximum length of a file name, and the length that a long name is cut to, so that a suffix fits."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Convert errors of the disk or the file system in the block to a `DiskError` about `path`."""
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
    """Raise DiskError if fewer than `needed_bytes` are free on the disk that holds `path`."""
    with disk_errors(path):
        if _free_bytes(path) < needed_bytes:
            raise DiskError(f"{path}: needs {needed_bytes:,} bytes; {_free_space(path)}")


def name_aside(name: str, mark: str) -> str:
    """The name of a file or directory that is written beside another; `mark` keeps several apart.

    A long name is cut and gets a digest. One that is too long for any file is kept: the system refuses it.
    """
    raw = os.fsencode(name)
    if _NAME_BYTES_ASIDE < len(raw) <= _NAME_BYTES:
        name = f"{os.fsdecode(raw[:_NAME_BYTES_ASIDE])}-{hashlib.sha256(raw).hexdigest()[:16]}"
    return f"{name}{ASIDE}{mark}"


def set_mode(path: Path, mode: int) -> None:
    """Change the permissions of a file if they differ: a file system without permissions refuses changes."""
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def sync(path: Path) -> None:
    """Sync a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(error: OSError, path: Path) -> str:
    """The path to name in an error: `path` for everything that is written aside for it."""
    name = str(error.filename or path)
    return str(path) if f"/{name_aside(path.name, '')}" in f"/{name}" else name


def _free_space(path: Path) -> str:
    return f"{_free_bytes(path):,} bytes are free there; make room or name another place"


def _free_bytes(path: Path) -> int:
    path = path.absolute()
    return shutil.disk_usage(next(p for p in (path, *path.parents) if p.is_dir())).free


_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):((?P<slashes>/+)(?P<rest>.*))?", re.IGNORECASE | re.DOTALL)


def url_of(path: Path | str) -> str | None:
    """The URL that is meant by a path, or None of a local path.

    A `Path` of `s3://bucket/data` has lost a slash, which is put back. One of `file:///data` has lost two.
    Raises UsageError if the URL names no place, such as `s3://`, whose `Path` has lost both slashes.
    """
    found = _URL.fullmatch(str(path))
    if not found or Path(Path(path).parts[0]).exists():  # a folder may have such a name
        return None
    if not found["rest"]:
        raise UsageError(f"{found['scheme']}://: names no place; write {found['scheme']}://PLACE/FOLDER")
    slashes = found["slashes"] if len(found["slashes"]) > 1 else "///" if found["scheme"] == "file" else "//"
    return f"{found['scheme']}:{slashes}{found['rest']}"


def require_local(path: Path, remedy: str = "name a local path") -> None:
    """Raise UsageError for a URL as a place to write to."""
    if url := url_of(path):
        raise UsageError(f"{url}: is not local; {remedy}")
