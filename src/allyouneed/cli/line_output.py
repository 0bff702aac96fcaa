"""Output lines on stdout or in a file: always whole, and resumable after a kill."""

import contextlib
import math
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from allyouneed.cli.part_output import PartsOutput
from allyouneed.data.lines import Line, encode_line
from allyouneed.errors import UsageError
from allyouneed.storage.publish import disk_errors, lock_output

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
        """Write the rows that answer a line, without delay.

        Raises:
            OSError: The rows cannot be written.
        """
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
    Nothing is changed before they match.

    Args:
        path: The file.
        descriptor: Descriptor of the file, open for reading and writing.
        rows_per_line: Number of rows per answer.
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
        """Write the answer to a line, or compare it with the one in the file.

        Raises:
            UsageError: The file holds another answer.
            DiskError: The file cannot be written.
        """
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
        """Report that all of the input has been answered.

        Raises:
            UsageError: The file holds more answers.
        """
        if self._to_compare:
            raise self._another_run()

    def _another_run(self) -> UsageError:
        return UsageError(
            f"{self._path}: was not written with this model, input and options; "
            "repeat those of the interrupted run, or name a new file with --resume-output"
        )


LineOutput = StreamOutput | ResumedOutput | PartsOutput
"""Destination of answers."""


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
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock_output(descriptor, path)
        with disk_errors(path):
            output = ResumedOutput(path, descriptor, rows_per_line)
        yield output
    finally:
        os.close(descriptor)


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
