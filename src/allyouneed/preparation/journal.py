"""Records how much of an unfinished DATA directory is safely on the disk, so that `prepare` can resume."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from allyouneed.data.corpus import CleaningReport
from allyouneed.storage.publish import sync, write_text

UNFINISHED = "unfinished.json"
EVERY_CHUNKS, FIRST_CHUNKS = 64, 10
"""Numbers of chunks after which what has been written is made safe: every 260,000 pairs or so, and once after
40,000, so that a vocabulary is not learned again."""
_READ_BYTES = 1 << 20


class Milestone(NamedTuple):
    """How far the training part is."""

    num_chunks: int
    """Number of chunks that are written."""
    vocab_sizes: tuple[int, int]
    """Sizes of the vocabularies that were learned."""
    num_examples: int | None
    """Number of training examples, if that is known."""
    report: CleaningReport
    """The findings of writing the chunks."""

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The milestone in a file; raises KeyError, TypeError or ValueError if it is none."""
        source, target = map(int, found["vocab_sizes"])
        report = CleaningReport.of_drops(found["report"])
        return cls(int(found["num_chunks"]), (source, target), found["num_examples"], report)

    def to_json(self) -> dict[str, Any]:
        """The milestone as JSON values."""
        return self._asdict() | {"report": self.report.to_dict()}


class Journal:
    """Records milestones in a directory, and finds the last one of a process that was killed.

    Args:
        directory: An unfinished directory, or an empty one. Files that are not safe, are damaged, or
            were written for another request, are removed.
        request: Digest of the settings and the versions of files.
        say: Receives a line on what becomes of the files that are there.
    """

    def __init__(self, directory: Path, request: str, say: Callable[[str], None]) -> None:
        self._directory, self._request = directory, request
        self._hashed: dict[str, _Prefix] = {}
        self.milestone = self._last_milestone()
        """The last milestone of a process that was killed; None if there is none to go on from."""
        if self.milestone is not None:
            say("NOTICE: going on with what was left unfinished")
        elif any(directory.iterdir()):
            say("NOTICE: beginning anew: what was left is damaged, or of other files or settings")
            self._hashed = {}
            _empty(directory)

    def record(self, milestone: Milestone) -> None:
        """Make the chunks that have been written safe, with what was found while they were written."""
        files = {}
        for path in self._paths():
            if path.is_file():
                sync(path)
                name = path.relative_to(self._directory).as_posix()
                prefix = self._hashed.setdefault(name, _Prefix())
                files[name] = prefix.extended(path, path.stat().st_size)
        found = {"request": self._request, "files": files, **milestone.to_json()}
        write_text(self._directory / UNFINISHED, json.dumps({"sha256": _digest(found), **found}, indent=1))

    def _last_milestone(self) -> Milestone | None:
        try:
            found = json.loads((self._directory / UNFINISHED).read_bytes())
            if found.pop("sha256") != _digest(found) or found["request"] != self._request:
                return None
            return Milestone.from_json(found) if self._has_cut_to(found["files"]) else None
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return None

    def _has_cut_to(self, files: dict[str, list[Any]]) -> bool:
        """Cut files to what is safe, and remove others. Returns whether that is all there, and sound."""
        missing = set(files)
        for path in self._paths():
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                return False
            if path.is_dir():
                continue
            name = path.relative_to(self._directory).as_posix()
            if name not in files:
                path.unlink()
                continue
            size = int(files[name][0])
            if path.stat().st_size < size:
                return False
            os.truncate(path, size)
            self._hashed[name] = _Prefix()
            if [*self._hashed[name].extended(path, size)] != files[name]:
                return False
            missing.discard(name)
        return not missing

    def _paths(self) -> list[Path]:
        return [path for path in self._directory.rglob("*") if path != self._directory / UNFINISHED]


class _Prefix:
    """The size and sha256 of the begin of a file that grows."""

    def __init__(self) -> None:
        self._size, self._sha256 = 0, hashlib.sha256()

    def extended(self, path: Path, size: int) -> tuple[int, str]:
        """The first bytes of a file: their number and sha256. Only what is new is read."""
        with path.open("rb") as file:
            file.seek(self._size)
            while self._size < size and (block := file.read(min(_READ_BYTES, size - self._size))):
                self._sha256.update(block)
                self._size += len(block)
        return self._size, self._sha256.hexdigest()


def _digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _empty(directory: Path) -> None:
    for path in [*directory.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
