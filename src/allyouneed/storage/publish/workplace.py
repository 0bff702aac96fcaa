"""Locked folders beside a directory, for what is not there yet and for what is being removed.

The workplace of `data` is `data.tmp-unfinished`. It holds `lock`, which names the process that works there,
`content`, which is what becomes `data` or is what `data` was, and for a moment perhaps `old`, the `data` that
gives way to `content`.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from allyouneed.errors import LockedError, UsageError
from allyouneed.storage.publish.disk import ASIDE, disk_errors, name_aside, sync
from allyouneed.storage.publish.lock import lock_holder, sign, take_lock

_MARK = "unfinished"
_LOCK, _CONTENT, _OLD = "lock", "content", "old"
_SPARE_DESCRIPTORS = 6
"""As many as deleting a directory takes that is as deep as any that is published."""
_LEFTOVER = re.compile(rf"(?P<name>.+){re.escape(ASIDE)}(?:{_MARK}|\d+(?:-old)?|(?P<unique>[0-9a-f]{{32}}))")

Say = Callable[[str], None]


class Workplace:
    """The folder beside a directory in which this process alone works.

    Args:
        folder: The folder.
        missing: The folders around it that were not there before it was made, the innermost first.
    """

    def __init__(self, folder: Path, missing: Sequence[Path]) -> None:
        self.content, self.old = folder / _CONTENT, folder / _OLD
        self._folder, self._missing = folder, missing

    def clear(self) -> None:
        """Remove what was made here, or brought here to be removed."""
        for directory in (self.content, self.old):
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)
            else:
                directory.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove the folder, and those around it that were missing and are empty.

        What cannot be removed stays with the lock that tells whose it is.
        """
        with contextlib.suppress(OSError):
            self.clear()
            (self._folder / _LOCK).unlink()
            for folder in (self._folder, *self._missing):
                folder.rmdir()


@contextlib.contextmanager
def workplace(target: Path, say: Say = lambda line: None) -> Iterator[Workplace]:
    """Work beside `target`; the folder, and what is in it, is removed at the end.

    Args:
        target: An absolute path without links.
        say: Is told of what a killed process had left there: an old directory for which nothing new is in
            its place is put back, all else is removed.

    Raises:
        LockedError: Another process works there, or one of another host may.
        UsageError: What is there in place of the folder is not of this program.
    """
    folder = target.with_name(name_aside(target.name, _MARK))
    place = Workplace(folder, [parent for parent in target.parents if not parent.exists()])
    _spare_descriptors(_SPARE_DESCRIPTORS + 1).close()  # and one for the lock; else nothing is made
    with _entered(folder, target) as lock:
        _require_own(folder, lock, target)
        if put_back(folder, target):
            say(f"NOTICE: {target}: put back, as process {lock_holder(lock)} had not finished replacing it")
        if _names_in(folder) != {_LOCK}:
            place.clear()
            say(f"NOTICE: {target}: removed what process {lock_holder(lock)} had left unfinished")
        sign(lock)
        spare = _spare_descriptors()
        try:
            yield place
        finally:
            spare.close()
            place.leave()


def discard(target: Path) -> None:
    """Delete a directory, which is complete or absent at every moment, as when it was made.

    Of a link to a directory, only the link is removed: whoever has moved a directory to another disk and
    linked it wants to keep it, and what is behind the link may have other users.

    Raises:
        DiskError: It could not be deleted.
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
    """Whether the workplace of a killed process held the old directory with nothing in its place; now it is.

    Args:
        folder: The workplace.
        target: The directory that was being replaced.
    """
    old = folder / _OLD
    if not old.is_dir() or os.path.lexists(target):
        return False
    old.rename(target)
    sync(target.parent)
    return True


def is_leftover(path: Path, is_ours: Callable[[str], bool]) -> bool:
    """Whether a killed process has left this beside something that it wrote.

    Args:
        path: A file or a directory.
        is_ours: Says of a name whether this program writes a file or directory of that name there.
    """
    found = _LEFTOVER.fullmatch(path.name)
    return found is not None and (found["unique"] is not None or is_ours(found["name"]))


def _spare_descriptors(count: int = _SPARE_DESCRIPTORS) -> contextlib.ExitStack:
    """Open files that are closed to clean up, where the work has opened as many as the system allows."""
    with contextlib.ExitStack() as spare:
        for _ in range(count):
            spare.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        return spare.pop_all()


def _entered(folder: Path, target: Path) -> BinaryIO:
    """The lock of the folder, which is made; both may vanish at any time, as another process leaves."""
    while True:
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


def _may_be_ours(folder: Path) -> bool:
    """Whether a folder holds a lock, and what lies beside one, or nothing yet."""
    if folder.is_symlink() or folder.is_file():
        return False
    names = _names_in(folder)
    return not names or {_LOCK} <= names <= {_LOCK, _CONTENT, _OLD}


def _require_own(folder: Path, lock: BinaryIO, target: Path) -> None:
    """Refuse the folder that a process of another host has left, or somebody else has made."""
    if _names_in(folder) == {_LOCK}:
        return
    signed = re.fullmatch(r"\d+ on (.+)", lock_holder(lock))
    if signed is None:
        raise _in_the_way(folder)
    if signed[1] != os.uname().nodename:
        raise LockedError(
            f"{target}: process {lock_holder(lock)} was making or removing this directory; "
            f"if it has ended, remove {folder}"
        )


def _in_the_way(folder: Path) -> UsageError:
    return UsageError(f"{folder}: is in the way and was not made by allyouneed; move or rename it")


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
