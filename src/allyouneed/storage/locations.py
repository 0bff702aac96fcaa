"""Folders at any place that fsspec reaches: object stores, HDFS, SFTP, and the local disk.

Files appear whole, under their name, or not at all. Connections that break are tried again.
"""

import contextlib
import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from allyouneed.errors import DiskError, UsageError
from allyouneed.storage.publish.disk import ASIDE
from allyouneed.storage.publish.file import replaced_file

ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.25  # twice as long after each attempt
_BLOCK_BYTES = 1 << 22
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/(?P<rest>/?.*)", re.IGNORECASE | re.DOTALL)
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""Errors that another attempt does not mend."""

Found = TypeVar("Found")


def url_of(path: Path | str) -> str | None:
    """The URL that is meant by a path, or None of a local path.

    A `Path` of `s3://bucket/data` has lost a slash, which is put back.
    """
    found = _URL.fullmatch(str(path))
    if not found or Path(path).exists():
        return None
    if isinstance(path, str):
        return path
    root = "/" if found["scheme"] == "file" else ""
    return f"{found['scheme']}://{root}{found['rest']}"


class Location:
    """A folder.

    Args:
        where: A URL such as `s3://bucket/folder`, or a local path.
        sleep: Waits for so many seconds before another attempt.

    Raises:
        UsageError: There is no such kind of URL, or its package is not installed.
    """

    def __init__(self, where: Path | str, sleep: Callable[[float], None] = time.sleep) -> None:
        import fsspec

        self.name = str(where).rstrip("/")
        self._sleep = sleep
        try:
            self._files, root = fsspec.core.url_to_fs(url_of(where) or str(Path(where).absolute()))
        except (ImportError, ValueError) as error:
            raise UsageError(f"{where}: {' '.join(str(error).split())}") from None
        self._root: str = root.rstrip("/")
        self._is_local = "file" in _names(self._files.protocol)

    def make(self) -> None:
        """Make the folder, if it is missing and such places have folders."""
        self._again("made", partial(self._files.makedirs, self._root, exist_ok=True))

    def sizes(self) -> dict[str, int]:
        """The files in the folder and its folders: name -> size in bytes; none if there is no folder."""

        def find() -> dict[str, int]:
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
            return {name[len(self._root) + 1 :]: entry["size"] for name, entry in found.items()}

        try:
            return self._again("listed", find)
        except FileNotFoundError:
            return {}

    def read(self, name: str, most_bytes: int) -> bytes:
        """The first bytes of a file.

        Raises:
            FileNotFoundError: There is none.
        """

        def read() -> bytes:
            with self._files.open(path=self._path(name), mode="rb") as file:
                return bytes(file.read(most_bytes))

        return self._again(f"read ({name})", read)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file."""
        self._place(name, lambda aside: self._files.pipe_file(aside, content))

    def put(self, source: Path, name: str) -> None:
        """Copy a local file to a name in the folder."""
        self._place(name, partial(self._files.put_file, str(source)))

    def fetch(self, name: str, target: Path, sha256: str) -> None:
        """Copy a file of the folder to the local disk.

        Raises:
            FileNotFoundError: There is none.
            DiskError: Another content than that with this sha256 comes every time.
        """

        def fetch() -> None:
            with target.open("wb") as file:
                if self._hashed(name, file.write) != sha256:
                    raise OSError("another content than its manifest says has come")

        self._again(f"read ({name})", fetch)

    def sha256_of(self, name: str) -> str:
        """The sha256 of a file, in hexadecimal."""
        return self._again(f"read ({name})", partial(self._hashed, name, lambda block: None))

    def _hashed(self, name: str, receive: Callable[[bytes], Any]) -> str:
        digest = hashlib.sha256()
        with self._files.open(path=self._path(name), mode="rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                receive(block)
        return digest.hexdigest()

    def _place(self, name: str, write: Callable[[str], None]) -> None:
        """Let a file be written, then give it its name."""
        path = self._path(name)
        if self._is_local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with replaced_file(Path(path)) as local:
                write(str(local))
            return
        aside = f"{path}{ASIDE}{uuid.uuid4().hex}"
        self._again("made", partial(self._files.makedirs, path.rpartition("/")[0], exist_ok=True))
        try:
            self._again(f"written ({name})", partial(write, aside))
            self._again(f"written ({name})", partial(self._move, aside, path))
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(aside)
            raise

    def _move(self, aside: str, path: str) -> None:
        self._files.invalidate_cache()
        if not self._files.exists(aside) and self._files.exists(path):
            return  # an earlier attempt moved it, but its answer was lost
        self._files.mv(aside, path)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _again(self, what: str, call: Callable[[], Found]) -> Found:
        """The result of a call, which is tried several times."""
        for pause in [*_pauses(), None]:
            try:
                return call()
            except _FINAL as error:
                if isinstance(error, FileNotFoundError):
                    raise
                raise DiskError(f"{self.name}: could not be {what}: {_reason(error)}") from error
            except OSError as error:
                if pause is None:
                    raise DiskError(
                        f"{self.name}: could not be {what} in {ATTEMPTS} attempts: {_reason(error)}; "
                        "run it again to go on"
                    ) from error
                self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")


def _pauses() -> Iterator[float]:
    return (_FIRST_PAUSE_SECONDS * 2**attempt for attempt in range(ATTEMPTS - 1))


def _names(protocol: str | tuple[str, ...]) -> tuple[str, ...]:
    return (protocol,) if isinstance(protocol, str) else protocol


def _reason(error: OSError) -> str:
    return " ".join(str(error).split()) or type(error).__name__
