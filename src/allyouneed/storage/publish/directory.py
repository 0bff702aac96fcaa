"""Publishes complete directories, which replace only directories of their own kind.

They are written in a workplace, a locked folder beside the directory that is being written or removed. The
workplace of `data` is `data.tmp-unfinished`. It contains `lock`, which names the process that works there;
`content`, which becomes `data`, or was `data` before its removal; and for a moment perhaps `old`, the `data`
that `content` replaces.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from allyouneed.errors import DiskError, LockedError, ResourceError, UsageError
from allyouneed.storage.publish.disk import ASIDE, disk_errors, name_aside, require_local, sync
from allyouneed.storage.publish.lock import lock_holder, sign, take_lock
from allyouneed.storage.publish.manifest import foreign_files, write_manifest

_HERE, _RENAME_EXCHANGE = -100, 2
"""AT_FDCWD and a flag of Linux's renameat2."""
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
"""Errors of renaming a directory to a place that is neither free nor an empty directory."""
_MARK = "unfinished"
_LOCK, _CONTENT, _OLD = "lock", "content", "old"
_SPARE_DESCRIPTORS = 6
"""Number of open files needed to delete the deepest directory that is published."""
_LEFTOVER = re.compile(rf"(?P<name>.+){re.escape(ASIDE)}(?:{_MARK}|\d+(?:-old)?|(?P<unique>[0-9a-f]{{32}}))")
_INTERRUPTIONS = (KeyboardInterrupt, SystemExit, MemoryError, OSError, DiskError, ResourceError)
"""Errors that end work that can be continued."""
_MOST_REMOVALS = 100
"""How often others may remove a folder while this process takes its lock."""

Say = Callable[[str], None]


@contextlib.contextmanager
def publish_directory(
    target: Path,
    kind: str,
    facts: Mapping[str, Any] | None = None,
    *,
    replace: bool = False,
    unfinished: str | None = None,
    say: Say = lambda line: None,
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
                try:
                    place.content.rename(destination)  # atomically; only a free path is taken
                except OSError as error:
                    if error.errno not in _OCCUPIED:
                        raise
                    raise UsageError(
                        f"{target}: has appeared while it was being made, and is left as it is; "
                        "name a new folder"
                    ) from None
            sync(destination.parent)


def remove_directory(target: Path, kind: str) -> None:
    """Delete a published directory as `discard` does; raises UsageError if it has foreign files."""
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


def _replace(place: "Workplace", destination: Path, kind: str) -> None:
    """Exchange the new and the old directory, atomically if the file system supports that.

    The old one is checked again once nothing can be added under its name, and put back if something was.
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


class LeftoverError(LockedError):
    """A process of another host has left a workplace; whether it has ended cannot be seen from here."""


class Workplace:
    """A folder beside a directory, in which only this process works.

    `missing` are the parent folders that were created for it, the innermost first.
    """

    def __init__(self, folder: Path, missing: Sequence[Path]) -> None:
        self.content, self.old = folder / _CONTENT, folder / _OLD
        self._folder, self._missing = folder, missing

    def clear(self) -> None:
        """Remove the content."""
        for directory in (self.content, self.old):
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)
            else:
                directory.unlink(missing_ok=True)

    def can_go_on(self, unfinished: str | None) -> bool:
        """Whether the content has a file of this name, and there is nothing else."""
        return (
            unfinished is not None
            and not os.path.lexists(self.old)
            and not self.content.is_symlink()
            and (self.content / unfinished).is_file()
        )

    def leave(self) -> None:
        """Remove the folder, and its parents that were created for it and are empty.

        Files that cannot be removed stay, together with the lock that names their owner.
        """
        with contextlib.suppress(OSError):
            self.clear()
            (self._folder / _LOCK).unlink()
            for folder in (self._folder, *self._missing):
                folder.rmdir()


@contextlib.contextmanager
def workplace(
    target: Path, say: Say = lambda line: None, unfinished: str | None = None
) -> Iterator[Workplace]:
    """Create a workplace beside `target`, and remove it with its content at the end.

    Args:
        target: An absolute path without links.
        say: Receives a line about the remains of a killed process: an old directory without a replacement is
            put back, everything else is removed.
        unfinished: Name of a file whose presence in the content keeps that; see `publish_directory`.

    Raises:
        LockedError: Another process works there, or a process of another host may.
        UsageError: There is something at its path that this program did not write.
    """
    folder = target.with_name(name_aside(target.name, _MARK))
    place = Workplace(folder, [parent for parent in target.parents if not parent.exists()])
    _spare_descriptors(_SPARE_DESCRIPTORS + 1).close()  # and one for the lock; else nothing is made
    with _entered(folder, target) as lock:
        _require_own(folder, lock, target)
        if put_back(folder, target):
            say(f"NOTICE: {target}: put back, as process {lock_holder(lock)} had not finished replacing it")
        if _names_in(folder) != {_LOCK} and not place.can_go_on(unfinished):
            place.clear()
            say(f"NOTICE: {target}: removed what process {lock_holder(lock)} had left unfinished")
        sign(lock)
        spare, is_kept = _spare_descriptors(), False
        try:
            yield place
        except BaseException as error:
            is_kept = isinstance(error, _INTERRUPTIONS) and place.can_go_on(unfinished)
            raise
        finally:
            spare.close()
            if is_kept:
                say(f"NOTICE: {target}: the same command goes on where this one ends, or remove {folder}")
            else:
                place.leave()


def discard(target: Path) -> None:
    """Delete a directory, which is complete or absent at every moment; of a link, only the link."""
    with disk_errors(target):
        if target.is_symlink():
            target.unlink()
            sync(target.parent)
        else:
            with workplace(Path(os.path.realpath(target))) as place:
                target.rename(place.content)
                sync(target.parent)
                place.clear()


def put_back(folder: Path, target: Path) -> bool:
    """Put back an old directory whose replacement a killed process did not finish; returns whether it did."""
    old = folder / _OLD
    if not old.is_dir() or os.path.lexists(target):
        return False
    old.rename(target)
    sync(target.parent)
    return True


def is_leftover(path: Path, is_ours: Callable[[str], bool]) -> bool:
    """Whether a killed process left this file or directory beside one that it was writing.

    `is_ours` tells the names of the files and directories that this program writes there.
    """
    found = _LEFTOVER.fullmatch(path.name)
    return found is not None and (found["unique"] is not None or is_ours(found["name"]))


def _spare_descriptors(count: int = _SPARE_DESCRIPTORS) -> contextlib.ExitStack:
    """Open files to close before cleaning up, in case the work has opened as many as the system allows."""
    with contextlib.ExitStack() as spare:
        for _ in range(count):
            spare.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        return spare.pop_all()


def _entered(folder: Path, target: Path) -> BinaryIO:
    """Create a folder and take its lock; both may vanish at any time when another process ends."""
    for _ in range(_MOST_REMOVALS):
        with contextlib.suppress(FileNotFoundError):
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                if not _may_be_ours(folder):
                    raise _in_the_way(folder) from None
            try:
                return take_lock(folder / _LOCK, target, "making or removing this directory")
            except OSError:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # as it may have been made for nothing
                raise
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))  # as below /proc


def _may_be_ours(folder: Path) -> bool:
    """Whether a folder is empty, or has a lock and only the files of a workplace."""
    if folder.is_symlink() or folder.is_file():
        return False
    names = _names_in(folder)
    return not names or {_LOCK} <= names <= {_LOCK, _CONTENT, _OLD}


def _require_own(folder: Path, lock: BinaryIO, target: Path) -> None:
    """Refuse a folder that a process of another host left, or that this program did not make."""
    if _names_in(folder) == {_LOCK}:
        return
    signed = re.fullmatch(r"\d+ on (.+)", lock_holder(lock))
    if signed is None:
        raise _in_the_way(folder)
    if signed[1] != os.uname().nodename:
        raise LeftoverError(
            f"{target}: process {lock_holder(lock)} was making or removing this directory; "
            f"if it has ended, remove {folder}"
        )


def _in_the_way(folder: Path) -> UsageError:
    return UsageError(f"{folder}: is in the way and was not made by allyouneed; move or rename it")


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
