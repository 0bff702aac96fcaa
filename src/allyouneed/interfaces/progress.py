"""How far a long job is: a bar on a terminal, elsewhere one plain line every half minute."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from allyouneed.interfaces.console import notice, talk

_ESTIMATED_OVER_SECONDS = 600.0
"""The time left follows from the speed of the last so many: long enough to hold validations too."""
_WIDE_TERMINAL = 110
"""Columns from which on there is room for a bar beside the figures."""


class Progress(Protocol):
    """What a long job reports to."""

    def advance(self, count: int = 1, remark: str = "") -> None:
        """Say that `count` more units are done, and how it goes (`loss 3.21, 11,200 tokens/s`)."""


@contextlib.contextmanager
def progress(total: int | None, *, unit: str, description: str, done: int = 0) -> Iterator[Progress]:
    """Show the progress of the block on standard error, with the time that is left; nothing under `--quiet`.

    Args:
        total: How many units there are; None where nobody knows.
        unit: The units' name, in the plural: "updates", "lines".
        description: What is being done, in a word or two.
        done: Units that were done before this process began, as after a resume.
    """
    console = Console(stderr=True)
    if talk.quiet or not console.is_interactive:
        yield ProgressLines(total, unit, description, done)
        return
    wide = console.width >= _WIDE_TERMINAL
    with Bar(
        *_columns(wide),
        console=console,
        expand=wide,
        redirect_stdout=False,
        speed_estimate_period=_ESTIMATED_OVER_SECONDS,
    ) as bar:
        yield _ProgressBar(bar, total, f"{description} ({unit})" if wide else description, done)


def _columns(wide: bool) -> list[ProgressColumn]:
    """What fits into a terminal: on one that is not wide the figures alone, without bar and time gone by."""
    columns: dict[ProgressColumn, bool] = {
        TextColumn("{task.description}", markup=False): True,
        BarColumn(bar_width=None): wide,
        MofNCompleteColumn(): True,
        TextColumn("{task.fields[remark]}", markup=False): True,
        TimeElapsedColumn(): wide,
        TimeRemainingColumn(): True,
    }
    return [column for column, fits in columns.items() if fits]


class ProgressLines:
    """Progress as plain lines, at most one every `every_seconds`."""

    def __init__(
        self,
        total: int | None,
        unit: str,
        description: str,
        done: int = 0,
        *,
        every_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._unit, self._description = total, unit, description
        self._done = self._done_before = done
        self._every_seconds, self._clock = every_seconds, clock
        self._began = self._spoke = clock()

    def advance(self, count: int = 1, remark: str = "") -> None:
        """Count, and say a line where the last one is long enough ago."""
        self._done += count
        now = self._clock()
        if now - self._spoke >= self._every_seconds:
            self._spoke = now
            rate = (self._done - self._done_before) / (now - self._began)
            parts = (self._position(rate), f"{_number(rate)} {self._unit}/s", remark)
            notice(f"{self._description}: {', '.join(filter(None, parts))}")

    def _position(self, rate: float) -> str:
        if self._total is None:
            return f"{self._done:,} {self._unit}"
        position = f"{self._done:,}/{self._total:,} {self._unit} ({self._done / max(self._total, 1):.0%})"
        seconds_left = (self._total - self._done) / rate if rate else 0.0
        return f"{position}, {timedelta(seconds=round(seconds_left))} left" if rate else position


class _ProgressBar:
    def __init__(self, bar: Bar, total: int | None, description: str, done: int) -> None:
        self._bar = bar
        self._task = bar.add_task(description, total=total, completed=done, remark="")

    def advance(self, count: int = 1, remark: str = "") -> None:
        self._bar.update(self._task, advance=count)
        if remark:
            self._bar.update(self._task, remark=remark)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
