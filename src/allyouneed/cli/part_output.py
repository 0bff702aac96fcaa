"""Output lines as parts: files of so many answers, in a folder at any location that fsspec reaches.

The name of a part has its number and a digest of its input and of how that is answered. A part appears
whole, so one that is there is done: a run that was killed goes on with the parts that are missing. While
`parts.json` is there, everything is: it is removed before a part is written, and lists them all at the end.
"""

import contextlib
import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.lines import Line, encode_line
from allyouneed.errors import UsageError
from allyouneed.storage.locations import ASIDE, Location
from allyouneed.storage.publish import disk_errors, lock_output
from allyouneed.storage.publish.disk import url_of
from allyouneed.storage.remote import Advance

PART_LINES = 8_192
"""Number of answers in a part."""
LIST = "parts.json"
_NAME = re.compile(r"part-\d{6,}-[0-9a-f]{16}\.txt")
_LEFTOVER = re.compile(rf"{re.escape(ASIDE)}.*|({_NAME.pattern}|parts\.json)\.tmp-[0-9a-f]{{32}}")


class _Part(NamedTuple):
    name: str
    num_lines: int


class PartsOutput:
    """Writes answers as parts, and goes on where an earlier run was killed. See `parts_output`.

    Args:
        where: A local folder or a URL.
        request: What answers depend on but the input: models and options.
        advance: Receives the number of lines of each part that has been written.
        skip: Receives the number of lines of each part that was there.

    Raises:
        UsageError: The folder holds something else.
        DiskError: It cannot be reached.
    """

    def __init__(
        self,
        where: Path,
        request: str,
        advance: Advance = lambda count: None,
        skip: Advance = lambda count: None,
    ) -> None:
        self._request, self._advance, self._skip = request, advance, skip
        self._location = Location(where)
        self._location.make()
        self._has_list = False
        there = self._parts_there()
        self._there = {int(name.split("-")[1]): name for name in there}
        if len(self._there) < len(there):
            raise self._another_run(min(there - set(self._there.values())))
        self._pending: deque[_Part] = deque()
        self._names: list[str] = []
        self._rows: list[bytes] = []
        self._num_answered = self._num_lines = 0

    @property
    def num_parts(self) -> int:
        """Number of parts that an earlier run has written."""
        return len(self._there)

    def wanted(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, in their order, whose part is not there yet.

        Raises:
            UsageError: A part of another input, or of other options, is there.
        """
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
                self._pending.append(_Part(name, len(together)))
                yield from together
            else:
                self._skip(len(together))

    def write(self, rows: Sequence[str]) -> None:
        """Take the rows that answer a line; the last answer of a part writes it.

        Raises:
            DiskError: The part cannot be written.
        """
        self._rows.append(b"".join(map(encode_line, rows)))
        self._num_answered += 1
        if self._num_answered == self._pending[0].num_lines:
            part = self._pending.popleft()
            self._location.write(part.name, b"".join(self._rows))
            self._advance(part.num_lines)
            self._rows.clear()
            self._num_answered = 0

    def finish(self) -> None:
        """Write the list of parts.

        Raises:
            UsageError: The folder has parts of a longer input.
            DiskError: The list cannot be written.
        """
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


@contextlib.contextmanager
def parts_output(
    where: Path,
    request: str,
    advance: Advance = lambda count: None,
    skip: Advance = lambda count: None,
) -> Iterator[PartsOutput]:
    """The output of parts; of a local folder, it is the only one.

    Raises:
        UsageError, DiskError: See `PartsOutput`.
        LockedError: Another run is writing the folder.
    """
    if url_of(where):
        yield PartsOutput(where, request, advance, skip)
        return
    with disk_errors(where):
        where.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(where, os.O_RDONLY)
    try:
        lock_output(descriptor, where)
        yield PartsOutput(where, request, advance, skip)
    finally:
        os.close(descriptor)
