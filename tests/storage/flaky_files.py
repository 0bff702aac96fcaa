"""A file system in memory whose connections break."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem


class BackendError(Exception):
    """An error as those of some packages, which is none of the system."""


class FlakyFiles(MemoryFileSystem):  # type: ignore[misc]
    """Breaks a share of its calls, before or after they have been carried out, and reads halfway."""

    protocol = ("flaky",)
    store: ClassVar[dict[str, MemoryFile]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    broken_share: ClassVar[float] = 0.0
    num_broken: ClassVar[int] = 0
    draw: ClassVar[random.Random] = random.Random(1)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("flaky://").strip("/")

    @classmethod
    def may_break(cls) -> None:
        if cls.draw.random() < cls.broken_share:
            FlakyFiles.num_broken += 1
            if cls.draw.random() < 0.5:
                raise ConnectionResetError("the connection was dropped")
            raise BackendError("the connection was dropped")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.may_break()
        super().makedirs(path, exist_ok=exist_ok)

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        if self.draw.random() < self.broken_share:
            super().pipe_file(path, value[: len(value) // 2])
            FlakyFiles.num_broken += 1
            raise ConnectionResetError("the connection was dropped")
        super().pipe_file(path, value, **options)
        self.may_break()

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self.pipe_file(rpath, Path(lpath).read_bytes())

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        self.may_break()
        super().cp_file(path1, path2, **options)
        self.may_break()

    def rm_file(self, path: str) -> None:
        self.may_break()
        super().rm_file(path)

    def find(self, path: str, **options: Any) -> Any:
        self.may_break()
        return super().find(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        self.may_break()
        return bool(super().exists(path, **options))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self.may_break()
        found = super()._open(path, mode, **options)
        return _Broken(found.getvalue(), self) if mode == "rb" else found


class _Broken(MemoryFile):  # type: ignore[misc]
    def __init__(self, content: bytes, files: FlakyFiles) -> None:
        super().__init__(None, None, content)
        self._files = files

    def read(self, size: int | None = -1) -> bytes:
        self._files.may_break()
        return bytes(super().read(size))


@contextmanager
def flaky_files(broken_share: float) -> Iterator[type[FlakyFiles]]:
    """`flaky://` URLs, whose files are forgotten at the end."""
    fsspec.register_implementation("flaky", FlakyFiles, clobber=True)
    FlakyFiles.store.clear()
    FlakyFiles.pseudo_dirs[:] = [""]
    FlakyFiles.broken_share, FlakyFiles.num_broken, FlakyFiles.draw = broken_share, 0, random.Random(1)
    try:
        yield FlakyFiles
    finally:
        FlakyFiles.store.clear()
        FlakyFiles.broken_share = 0.0
