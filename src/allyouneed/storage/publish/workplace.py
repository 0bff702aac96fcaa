"""Workplaces: locked folders beside a directory that is being written or removed.

The workplace of `data` is `data.tmp-unfinished`. It contains `lock`, which names the process that works
there; `content`, which becomes `data`, or was `data` before its removal; and for a moment perhaps `old`, the
`data` that `content` replaces.
"""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import DiskError, LockedError, ResourceError, UsageError
from allyouneed.storage.publish.disk import ASIDE, disk_errors, name_aside, sync
from allyouneed.storage.publish.lock import lock_holder, sign, take_lock

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
    """Delete a directory, which is complete or absent at every moment.

    If it is a symbolic link, only the link is removed, as its target may have other users.

    Raises:
        DiskError: The directory could not be deleted.
    """
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
