"""Folders at any place that fsspec reaches: object stores, HDFS, SFTP, and the local disk.

Files appear whole, under their name, or not at all. At other places, what fails is tried again.
"""

import contextlib
import hashlib
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from allyouneed.errors import DiskError, UsageError, UserError
from allyouneed.storage.publish.disk import disk_errors, url_of
from allyouneed.storage.publish.file import replaced_file

PAUSES = 0.25, 0.5, 1, 2, 4
"""Seconds before each further attempt."""
ASIDE = ".aside-"
"""Beginning of the names of files that are being written."""
_BLOCK_BYTES = 1 << 22
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "oci", "oss", "memory"}
"""Places where a file is written whole by one request, and folders need not be made."""
_FINAL = (
    *(FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError),
    *(ImportError, NotImplementedError, TypeError, ValueError),
)
"""Errors that another attempt does not mend."""
_ABSENT = (FileNotFoundError,)

Found = TypeVar("Found")
_wait = time.sleep


class Location:
    """A folder at a URL such as `s3://bucket/folder`, or at a local path.

    Raises:
        UsageError: There is no such kind of URL, its package is not installed, or it has a password.
        DiskError: The place cannot be reached.
    """

    def __init__(self, where: Path | str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.name, url = str(where).rstrip("/"), url_of(where)
        if url and re.search("//[^/@]*:[^/@]*@", url):
            raise UsageError(
                f"{re.sub('//[^/@]*@', '//', url)}: a URL may not have a password; "
                "give it in fsspec's configuration (~/.config/fsspec)"
            )
        self._is_local = url is None
        self._files: Any = LocalFileSystem()
        root = str(Path(where).absolute())
        if url is not None:
            self.name = url.rstrip("/")
            try:
                self._files, root = self._again("reached", partial(url_to_fs, url), (ImportError, ValueError))
            except (ImportError, ValueError) as error:
                raise UsageError(f"{self.name}: {_reason(error)}") from None
        self._root = root.rstrip("/")
        names = self._files.protocol
        self._has_folders = not _OBJECT_STORES.intersection([names] if isinstance(names, str) else names)

    def make(self) -> None:
        """Make the folder, if it is missing and such places have folders."""
        if self._has_folders:
            self._again("made", partial(self._files.makedirs, self._root, exist_ok=True))

    def sizes(self) -> dict[str, int]:
        """The files in the folder and its folders: name -> size in bytes; none if there is no folder."""

        def find() -> dict[str, int]:
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
            return {name[len(self._root) + 1 :]: entry["size"] for name, entry in found.items()}

        try:
            return self._again("listed", find, _ABSENT)
        except FileNotFoundError:
            return {}

    def read(self, name: str, most_bytes: int) -> bytes:
        """The first bytes of a file; raises FileNotFoundError if there is none."""

        def read() -> bytes:
            with self._files.open(path=self._path(name), mode="rb") as file:
                return bytes(file.read(most_bytes))

        return self._again(f"read ({name})", read, _ABSENT)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file."""
        self._place(name, lambda path: self._files.pipe_file(path, content))

    def put(self, source: Path, name: str) -> None:
        """Copy a local file to a name in the folder."""
        self._place(name, partial(self._files.put_file, str(source)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._again(f"removed ({name})", partial(self._files.rm_file, self._path(name)), _ABSENT)

    def fetch(self, name: str, target: Path, size: int, sha256: str) -> None:
        """Copy a file of the folder to the local disk; raises FileNotFoundError if there is none.

        Raises DiskError if only other contents than of this size and sha256 come, or the disk is full.
        """

        def fetch() -> None:
            with disk_errors(target):
                file = target.open("wb", buffering=0)

            def receive(block: bytes) -> None:
                with disk_errors(target):
                    while block:  # a disk that is nearly full takes a part of it first
                        block = block[file.write(block) :]

            with file:
                if self._hashed(name, size, receive) != sha256:
                    raise _OtherContentError("another content than its manifest says has come")

        self._again(f"read ({name})", fetch, _ABSENT)

    def sha256_of(self, name: str, size: int) -> str | None:
        """The sha256 of a file, in hexadecimal; None of one that is larger than that."""
        return self._again(f"read ({name})", partial(self._hashed, name, size), _ABSENT)

    def _hashed(
        self, name: str, size: int, receive: Callable[[bytes], None] = lambda block: None
    ) -> str | None:
        digest = hashlib.sha256()
        with self._files.open(path=self._path(name), mode="rb") as file:
            while block := file.read(_BLOCK_BYTES):
                size -= len(block)
                if size < 0:
                    return None
                digest.update(block)
                receive(block)
        return digest.hexdigest()

    def _place(self, name: str, write: Callable[[str], None]) -> None:
        """Let a file be written, whole or not at all."""
        path = self._path(name)
        if self._is_local:
            with disk_errors(Path(path)):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            with replaced_file(Path(path)) as local:
                write(str(local))
            return
        what = f"written ({name})"
        if not self._has_folders:
            self._again(what, partial(write, path))
            return
        folder, _, last = path.rpartition("/")
        aside = f"{folder}/{ASIDE}{uuid.uuid4().hex}-{last}"
        self._again(what, partial(self._files.makedirs, folder, exist_ok=True))
        try:
            self._again(what, partial(write, aside))
            self._again(what, partial(self._move, aside, path))
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(aside)
            raise

    def _move(self, aside: str, path: str) -> None:
        from fsspec import AbstractFileSystem

        self._files.invalidate_cache()
        if not self._files.exists(aside) and self._files.exists(path):
            return  # an earlier attempt moved it, but its answer was lost
        if self._files.exists(path):  # which some places do not replace
            self._files.rm_file(path)
        if type(self._files).mv is not AbstractFileSystem.mv:  # such as SFTP's, which renames
            self._files.mv(aside, path)
            return
        self._files.copy([aside], [path])  # in lists, names are no patterns
        self._files.rm_file(aside)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _again(
        self, what: str, call: Callable[[], Found], passed_on: tuple[type[Exception], ...] = ()
    ) -> Found:
        """The result of a call, which is tried several times at another place."""
        for pause in [*(() if self._is_local else PAUSES), None]:
            try:
                return call()
            except UserError:
                raise
            except passed_on:
                raise
            except _FINAL as error:
                raise DiskError(f"{self.name}: could not be {what}: {_reason(error)}") from error
            except Exception as error:  # packages of fsspec raise errors of many kinds
                if pause is None:
                    attempts = "" if self._is_local else f" in {len(PAUSES) + 1} attempts"
                    raise DiskError(
                        f"{self.name}: could not be {what}{attempts}: {_reason(error)}; run it again to go on"
                    ) from error
                _wait(pause)
        raise AssertionError("the last attempt returns or raises")


class _OtherContentError(Exception):
    pass


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
