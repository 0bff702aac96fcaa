"""The log of a run: one JSON object per line, append-only."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from allyouneed.storage.publish import disk_errors, require_regular

Event = dict[str, Any]

_NUMBERS = {"step", "loss", "learning_rate", "bleu", "f1"}
"""Numeric fields that are plotted as curves."""
_GREATEST = 1e30
"""Largest absolute value accepted in a log; sums and products of a few such values stay finite."""


class RunLog:
    """Appends events to a log; raises UsageError if that is a pipe or a device.

    If a killed run left an incomplete last line, a newline is added after it; readers skip such a line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors(path):
            require_regular(path)
            self._file = path.open("a+b", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size and os.pread(self._file.fileno(), 1, size - 1) != b"\n":
                self._file.write(b"\n")

    def write(self, event: str, **fields: Any) -> None:
        """Append one event; the file system has it when this returns."""
        with disk_errors(self.path):
            line = json.dumps({"event": event, **fields}).encode() + b"\n"
            while line:  # a disk that is nearly full takes a part of it first
                line = line[self._file.write(line) :]

    def close(self) -> None:
        """Sync and close the file."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())
            self._file.close()


def read_log(path: Path) -> Iterator[Event]:
    """Yield the events of a log in order, without lines that no run writes; refuses pipes and devices."""
    require_regular(path)
    with path.open("rb") as file:
        for line in file:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and _is_sound(event):
                yield event


def _is_sound(event: Event) -> bool:
    numbers = [event[name] for name in _NUMBERS & event.keys() if event[name] is not None]
    return (
        isinstance(event.get("event"), str)
        and type(event.get("step", 0)) is int
        and all(map(is_number, numbers))
    )


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a number that a log may hold; nan is allowed, because a loss may not be finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) > _GREATEST
