"""Output lines on stdout, in a file or as parts in a folder: always whole, and resumable after a kill."""

import contextlib
import hashlib
import json
import math
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path

from allyouneed.data.lines import Line, encode_line
from allyouneed.errors import UsageError
from allyouneed.storage.locations import ASIDE, Location
from allyouneed.storage.publish import disk_errors, lock_output
from allyouneed.storage.publish.disk import url_of
from allyouneed.storage.remote import Advance

_NUM_COMPARED = 16
"""Number of last answers of an interrupted run that are computed again and compared."""

_NUMBER = re.compile(rb"(-?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+))")
_OF_NUMBERS = b"0123456789.e+-"
_TOLERANCE = 1e-3
"""By how much scores may differ, absolutely or relatively: those near 0 are differences of larger numbers."""


class StreamOutput:
    """Writes answers to a file descriptor. On a full disk, the file ends with a whole line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def wanted(self, lines: Iterable[Line]) -> Iterable[Line]:
        """The lines that are to be answered: all."""
        return lines

    def write(self, rows: Sequence[str]) -> None:
        """Write the rows that answer a line, without delay."""
        content, written = b"".join(map(encode_line, rows)), 0
        try:
            while written < len(content):
                written += os.write(self._descriptor, content[written:])
        except OSError:
            # Before its first write, a descriptor that appends has its place at 0, wherever the file ends.
            if written:
                with contextlib.suppress(OSError):  # take back what was written, if this is a file
                    end = os.lseek(self._descriptor, 0, os.SEEK_CUR) - written
                    os.ftruncate(self._descriptor, end)
                    os.lseek(self._descriptor, end, os.SEEK_SET)
            raise

    def finish(self) -> None:
        """Do nothing."""


class ResumedOutput:
    """Writes answers to a file that may already hold the first ones, from an interrupted run.

    The last answers in the file are computed again and must match; a torn answer at the end is completed.
    Nothing is changed before they match. The descriptor of the file is open for reading and writing.
    """

    def __init__(self, path: Path, descriptor: int, rows_per_line: int) -> None:
        self._path, self._descriptor, self._rows_per_line = path, descriptor, rows_per_line
        self._stream = StreamOutput(descriptor)
        self._to_compare: deque[bytes] = deque(maxlen=_NUM_COMPARED)
        num_answers = num_bytes = 0
        with open(descriptor, "rb", closefd=False) as file:
            while answer := b"".join(islice(file, rows_per_line)):
                self._to_compare.append(answer)
                num_answers, num_bytes = num_answers + 1, num_bytes + len(answer)
        self.num_answers, self._num_bytes = num_answers, num_bytes
        self.first = 1 + num_answers - len(self._to_compare)
        """Number of the first input line to answer, from 1."""

    def wanted(self, lines: Iterable[Line]) -> Iterable[Line]:
        """The lines that are to be answered: those without an answer in the file, and the last with one."""
        return (line for line in lines if line.number >= self.first)

    def write(self, rows: Sequence[str]) -> None:
        """Write the answer to a line, or compare it with the one in the file, which must not differ."""
        if self._to_compare:
            there, answer = self._to_compare.popleft(), b"".join(map(encode_line, rows))
            whole = there.count(b"\n") == self._rows_per_line
            if not (same_but_for_rounding if whole else _begins_with)(answer, there):
                raise self._another_run()
            if whole:
                return
            with disk_errors(self._path):
                os.ftruncate(self._descriptor, self._num_bytes - len(there))
                os.lseek(self._descriptor, 0, os.SEEK_END)
        with disk_errors(self._path):
            self._stream.write(rows)

    def finish(self) -> None:
        """Require that the file holds no more answers than the input has lines."""
        if self._to_compare:
            raise self._another_run()

    def _another_run(self) -> UsageError:
        return UsageError(
            f"{self._path}: was not written with this model, input and options; "
            "repeat those of the interrupted run, or name a new file with --resume-output"
        )


PART_LINES = 8_192
LIST = "parts.json"
_NAME = re.compile(r"part-\d{6,}-[0-9a-f]{16}\.txt")
_LEFTOVER = re.compile(rf"{re.escape(ASIDE)}.*|({_NAME.pattern}|parts\.json)\.tmp-[0-9a-f]{{32}}")


def _ignore(_: int) -> None: ...


class PartsOutput:
    """Writes answers as parts: files of so many answers, in a folder at any location that fsspec reaches.

    The name of a part has its number and a digest of its input, models and options. A part appears whole, so
    a run that was killed goes on with the missing parts. `parts.json` is removed before a part is
    written, and lists them all at the end: while it is there, everything is. `advance` receives the number of
    lines of each part that has been written, `skip` that of each part that was there.

    Raises:
        UsageError: The folder holds something else.
        DiskError: It cannot be reached.
    """

    def __init__(
        self, where: Path, request: str, advance: Advance = _ignore, skip: Advance = _ignore
    ) -> None:
        self._request, self._advance, self._skip = request, advance, skip
        self._location = Location(where)
        self._location.make()
        self._has_list = False
        there = self._parts_there()
        self._there = {int(name.split("-")[1]): name for name in there}
        if len(self._there) < len(there):
            raise self._another_run(min(there - set(self._there.values())))
        self._pending: deque[tuple[str, int]] = deque()
        """Names and numbers of lines of the parts to be written."""
        self._names: list[str] = []
        self._rows: list[bytes] = []
        self._num_lines = 0

    @property
    def num_parts(self) -> int:
        """Number of parts that an earlier run has written."""
        return len(self._there)

    def wanted(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, in their order, whose part is not there yet; an error if another run's part is."""
        source = iter(lines)
        for number in count():
            if not (together := [*islice(source, PART_LINES)]):
                return
            name = f"part-{number:06}-{self._digest(together)}.txt"
            self._names.append(name)
            self._num_lines += len(together)
            found = self._there.pop(number, None)
            if found is not None and found != name:
                raise self._another_run(found)
            if found is None:
                if self._has_list:
                    self._location.remove(LIST)
                    self._has_list = False
                self._pending.append((name, len(together)))
                yield from together
            else:
                self._skip(len(together))

    def write(self, rows: Sequence[str]) -> None:
        """Take the rows that answer a line; the last answer of a part writes it."""
        self._rows.append(b"".join(map(encode_line, rows)))
        if len(self._rows) == self._pending[0][1]:
            name, num_lines = self._pending.popleft()
            self._location.write(name, b"".join(self._rows))
            self._advance(num_lines)
            self._rows.clear()

    def finish(self) -> None:
        """Write the list of parts; an error if the folder has parts of a longer input."""
        if self._there:
            raise self._another_run(min(self._there.values()))
        if others := self._parts_there() - set(self._names):  # of a run at the same time
            raise self._another_run(min(others))
        content = {"lines": self._num_lines, "parts": self._names}
        self._location.write(LIST, json.dumps(content, indent=1).encode())

    def _parts_there(self) -> set[str]:
        """The names of parts in the folder. What a killed process was writing is removed."""
        there = set(self._location.sizes())
        self._has_list = LIST in there
        for name in [*filter(_LEFTOVER.fullmatch, there)]:
            self._location.remove(name)
            there.remove(name)
        if others := sorted(name for name in there - {LIST} if not _NAME.fullmatch(name)):
            raise UsageError(f"--parts {self._location.name}: holds {others[0]}; name a new folder")
        return there - {LIST}

    def _digest(self, lines: Sequence[Line]) -> str:
        digest = hashlib.sha256(self._request.encode())
        for line in lines:
            digest.update(f"\n{line.text if line.error is None else line.error}".encode(errors="replace"))
        return digest.hexdigest()[:16]

    def _another_run(self, name: str) -> UsageError:
        return UsageError(
            f"--parts {self._location.name}: {name} is of another input, or of another model, version or "
            "options; repeat those, or name a new folder"
        )


LineOutput = StreamOutput | ResumedOutput | PartsOutput


@contextlib.contextmanager
def resumed_output(path: Path, rows_per_line: int) -> Iterator[ResumedOutput]:
    """Open a new file for answers, or the file of an interrupted run.

    Raises:
        UsageError: The path is `-`, a pipe or a device.
        DiskError: The file cannot be written.
        LockedError: Another run is writing the file.
    """
    if path == Path("-") or (path.exists() and not (path.is_file() or path.is_dir())):
        raise UsageError(f"--resume-output {path}: is not a regular file; name one")
    with _locked(path, os.O_RDWR | os.O_CREAT) as descriptor:
        with disk_errors(path):
            output = ResumedOutput(path, descriptor, rows_per_line)
        yield output


def _begins_with(answer: bytes, torn: bytes) -> bool:
    """Whether `torn` can be the beginning of `answer`, but for rounding; its last number may be torn too."""
    pieces = _NUMBER.split(answer)
    for whole in (torn, torn.rstrip(_OF_NUMBERS)):
        *complete, last = _NUMBER.split(whole)
        place = len(complete)
        if len(pieces) <= place or not pieces[place].startswith(last):
            continue
        if whole != torn and (pieces[place].rstrip(_OF_NUMBERS) != last or len(pieces) == place + 1):
            continue  # the answer has no number where there is a torn one
        if same_but_for_rounding(b"".join(pieces[:place]), b"".join(complete)):
            return True
    return False


def same_but_for_rounding(one: bytes, other: bytes) -> bool:
    """Whether two answers are equal but for the last digits of numbers, as scores may differ on a GPU."""
    pieces, others = _NUMBER.split(one), _NUMBER.split(other)
    return len(pieces) == len(others) and all(
        a == b
        or (number % 2 == 1 and math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE))
        for number, (a, b) in enumerate(zip(pieces, others, strict=True))
    )


@contextlib.contextmanager
def parts_output(
    where: Path, request: str, advance: Advance = _ignore, skip: Advance = _ignore
) -> Iterator[PartsOutput]:
    """A `PartsOutput`, which locks a local folder (`LockedError` if another run is writing it)."""
    if url_of(where):
        yield PartsOutput(where, request, advance, skip)
        return
    with disk_errors(where):
        where.mkdir(parents=True, exist_ok=True)
    with _locked(where, os.O_RDONLY):
        yield PartsOutput(where, request, advance, skip)


@contextlib.contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of a file or folder, which no other run writes meanwhile."""
    with disk_errors(path):
        descriptor = os.open(path, flags, 0o666)
    try:
        lock_output(descriptor, path)
        yield descriptor
    finally:
        os.close(descriptor)
