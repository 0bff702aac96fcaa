"""Output lines as parts: files of so many answers, in a folder at any location that fsspec reaches.

The name of a part has its number and a digest of its input and of how that is answered. A part appears whole,
so one that is there is done: a run that was killed goes on with the parts that are missing. `parts.json` is
written last, and lists them all.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.lines import Line, encode_line
from allyouneed.errors import UsageError
from allyouneed.storage.locations import Location

PART_LINES = 8_192
"""Number of answers in a part."""
LIST = "parts.json"
_NAME = re.compile(r"part-(\d{6,})-([0-9a-f]{16})\.txt")


class _Part(NamedTuple):
    name: str
    num_lines: int


class PartsOutput:
    """Writes answers as parts, and goes on where an earlier run was killed.

    Args:
        where: A local folder or a URL.
        request: What answers depend on but the input: models and options.
        advance: Receives the number of lines of each part that is there or has been written.

    Raises:
        UsageError: The folder holds something else.
        DiskError: It cannot be reached.
    """

    def __init__(
        self, where: Path, request: str, advance: Callable[[int], None] = lambda count: None
    ) -> None:
        self._where, self._request, self._advance = where, request, advance
        self._location = Location(where)
        self._location.make()
        there = {name for name in self._location.sizes() if _is_whole(name)}
        if others := sorted(name for name in there if not _NAME.fullmatch(name) and name != LIST):
            raise UsageError(f"--parts {where}: holds {others[0]}; name a new folder")
        self._there = {int(found[1]): name for name in there if (found := _NAME.fullmatch(name))}
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
            if found not in (None, name):
                raise self._another_run(found)
            if found is None:
                self._pending.append(_Part(name, len(together)))
                yield from together
            else:
                self._advance(len(together))

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
        content = {"lines": self._num_lines, "parts": self._names}
        self._location.write(LIST, json.dumps(content, indent=1).encode())

    def _digest(self, lines: Sequence[Line]) -> str:
        digest = hashlib.sha256(self._request.encode())
        for line in lines:
            digest.update(f"\n{line.text if line.error is None else line.error}".encode(errors="replace"))
        return digest.hexdigest()[:16]

    def _another_run(self, name: str | None) -> UsageError:
        return UsageError(
            f"--parts {self._where}: {name} is of another input, or of another model or other options; "
            "repeat those, or name a new folder"
        )


def _is_whole(name: str) -> bool:
    """Whether this is not what a killed process was writing."""
    return ".tmp-" not in name
