"""What of an unfinished DATA directory is safe on the disk, so that `prepare` goes on after it was killed."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from allyouneed.data.corpus import CleaningReport
from allyouneed.storage.publish import sync, write_text
from allyouneed.tasks.units import Units

UNFINISHED = "unfinished.json"
EVERY_CHUNKS = 64
"""Number of chunks after which what has been written is made safe: some 260,000 pairs."""


class Milestone(NamedTuple):
    """How far the training part is."""

    num_chunks: int
    """Number of chunks that are written."""
    vocab_sizes: tuple[int, int]
    """Sizes of the vocabularies that were learned."""
    num_examples: int | None
    """Number of training examples, if that is known."""
    report: CleaningReport
    """What was found while the chunks were written."""

    @classmethod
    def at_begin(cls, units: Units, num_examples: int | None) -> Self:
        """The milestone once the units are saved."""
        sizes = units.source.vocab_size, units.target.vocab_size
        return cls(0, sizes, num_examples, CleaningReport())

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
        directory: An unfinished directory, or an empty one. What is not safe, or was written for another
            request, is removed.
        request: What the content depends on: settings and the versions of files.
        say: Receives a line if there is something, about what becomes of it.
    """

    def __init__(self, directory: Path, request: str, say: Callable[[str], None]) -> None:
        self._directory, self._request = directory, request
        self._milestone = self._last_milestone()
        if self._milestone is not None:
            say("NOTICE: going on with what was left unfinished")
        elif any(directory.iterdir()):
            say("NOTICE: beginning anew, as files or settings are not those of what was left unfinished")
            _empty(directory)

    @property
    def has_begun(self) -> bool:
        """Whether there is a milestone, and so the units are saved."""
        return self._milestone is not None

    @property
    def milestone(self) -> Milestone:
        """The last milestone."""
        assert self._milestone is not None, "begun, or found"
        return self._milestone

    def begin(self, milestone: Milestone) -> None:
        """Take the first milestone, from which nothing need be kept."""
        self._milestone = milestone

    def record(self, num_chunks: int, report: CleaningReport) -> None:
        """Make the chunks that have been written safe, with what was found while they were written."""
        self._milestone = milestone = self.milestone._replace(num_chunks=num_chunks, report=report)
        sizes = {}
        for file in self._files():
            sync(file)
            sizes[file.relative_to(self._directory).as_posix()] = file.stat().st_size
        found = {"request": self._request, "sizes": sizes, **milestone.to_json()}
        write_text(self._directory / UNFINISHED, json.dumps(found, indent=1))

    def end(self) -> None:
        """Remove the journal from a directory that is finished."""
        (self._directory / UNFINISHED).unlink(missing_ok=True)

    def _last_milestone(self) -> Milestone | None:
        with contextlib.suppress(OSError, KeyError, TypeError, ValueError, AttributeError):
            found = json.loads((self._directory / UNFINISHED).read_bytes())
            if found["request"] == self._request and self._has_cut_to(dict(found["sizes"])):
                return Milestone.from_json(found)
        return None

    def _has_cut_to(self, sizes: dict[str, int]) -> bool:
        """Cut files to their sizes and remove others. Returns whether all are there and large enough."""
        for file in [*self._files()]:
            size = sizes.pop(file.relative_to(self._directory).as_posix(), None)
            if size is None:
                file.unlink()
            elif file.stat().st_size < size:
                return False
            else:
                os.truncate(file, size)
        return not sizes

    def _files(self) -> Iterator[Path]:
        """All files but the journal itself."""
        for path in self._directory.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.name != UNFINISHED:
                yield path


def _empty(directory: Path) -> None:
    for path in [*directory.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
