"""Publishes complete directories, which replace only directories of their own kind."""

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from allyouneed.errors import UsageError
from allyouneed.storage.publish.disk import disk_errors, require_local, sync
from allyouneed.storage.publish.manifest import foreign_files, write_manifest
from allyouneed.storage.publish.workplace import Workplace, discard, workplace

_HERE, _RENAME_EXCHANGE = -100, 2
"""AT_FDCWD and a flag of Linux's renameat2."""
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
"""Errors of renaming a directory to a place that is neither free nor an empty directory."""


@contextlib.contextmanager
def publish_directory(
    target: Path,
    kind: str,
    facts: Mapping[str, Any] | None = None,
    *,
    replace: bool = False,
    unfinished: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Path]:
    """Yield a directory to write into, and publish it as `target` if the block succeeds.

    Args:
        target: Path of the new directory; it must not exist, or be empty.
        kind: Kind of the directory ("model", "state", "data"), checked when it is read.
        facts: More keys for the manifest, including those that the block adds to this mapping.
        replace: Whether to replace a published directory of the same kind, which stays complete until then.
        unfinished: Name of a file in the directory that tells how far the work is. While there is one, work
            that is killed, interrupted, or fails for want of room is kept, and the next call yields the
            directory as it is. The block takes care of directories that do not fit. The file is not
            published.
        say: Receives a line about unfinished work of a killed process, which is removed or kept.

    Raises:
        UsageError: `target` exists and is not empty, or has files that may not be replaced, at the start or
            at the end; it is left as it is.
        LockedError: Another process is writing `target`.
        DiskError: The directory could not be written; nothing is left behind that cannot be gone on with.
    """
    if not replace:
        require_free(target)
    with disk_errors(target):
        destination = Path(os.path.realpath(target))
        with workplace(destination, say, unfinished) as place:
            if not replace:
                require_free(target)  # another process may have made it before this one had the lock
            place.content.mkdir(exist_ok=unfinished is not None)
            yield place.content
            write_manifest(place.content, kind, facts or {}, unlisted=unfinished)
            if unfinished:
                (place.content / unfinished).unlink(missing_ok=True)
            if replace and _holds_something(destination):
                _replace(place, destination, kind)
            else:
                _put_in_place(place.content, destination, target)
            sync(destination.parent)


def remove_directory(target: Path, kind: str) -> None:
    """Delete a published directory, which is complete or absent at every moment.

    If it is a symbolic link, only the link is removed, as by `discard`.

    Raises:
        UsageError: The directory is of another kind, or has files that its manifest does not list.
        DiskError: The directory could not be deleted.
    """
    with disk_errors(target):
        if target.is_dir():
            _require_ours(target, kind)
        discard(target)


def require_free(target: Path) -> None:
    """Refuse a `target` that exists, unless it is empty or may be replaced, `-`, and one that is a URL."""
    require_local(target, "write to a local folder, then `allyouneed copy` it there")
    with disk_errors(target):
        place = Path(os.path.realpath(target))
        if place.is_mount():
            raise UsageError(f"{target}: is the root of a file system; name a folder in it")
        if target == Path("-") or (place.exists() and not place.is_dir()):
            raise UsageError(f"{target}: is not a directory; name a new one")
        if _holds_something(place):
            raise UsageError(f"{target}: exists and is not empty; name a new folder or remove this one")


def _holds_something(target: Path) -> bool:
    return any(target.iterdir()) if target.is_dir() else target.exists()


def _require_ours(target: Path, kind: str, new: Path | None = None, where: Path | None = None) -> None:
    """Refuse to remove a directory with files that were not published as `kind` and are not in `new` either.

    `target` is named in messages; the directory is `where`, by default the same.
    """
    where = where or target
    if not where.is_dir():
        raise UsageError(f"{target}: is not a directory; move it away")
    if foreign := foreign_files(where, kind, new):
        raise UsageError(f"{target}: holds {foreign[0]}, which allyouneed did not write; move it away")


def _put_in_place(content: Path, destination: Path, target: Path) -> None:
    """Rename a directory to a free path, atomically; the system refuses any other path."""
    try:
        content.rename(destination)
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise UsageError(
                f"{target}: has appeared while it was being made, and is left as it is; name a new folder"
            ) from None
        raise


def _replace(place: Workplace, destination: Path, kind: str) -> None:
    """Exchange the new and the old directory, atomically if the file system supports that.

    The old one is checked again once nothing can be added under its name, and put back if something was
    added.
    """
    _require_ours(destination, kind, place.content)
    if _exchanged(place.content, destination):
        try:
            _require_ours(destination, kind, destination, where=place.content)
        except BaseException:
            _exchanged(place.content, destination)
            raise
    else:
        destination.rename(place.old)
        try:
            _require_ours(destination, kind, place.content, where=place.old)
            place.content.rename(destination)
        except BaseException:
            place.old.rename(destination)
            raise


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two directories; returns whether the file system could."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = (_HERE, os.fsencode(one), _HERE, os.fsencode(other))
    return renameat2 is not None and renameat2(*names, _RENAME_EXCHANGE) == 0
