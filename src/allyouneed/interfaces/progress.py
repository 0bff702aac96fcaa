"""Progress of a long job: a bar on a terminal, elsewhere a plain line every half minute."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator

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

from allyouneed.errors import duration
from allyouneed.interfaces.console import notice, talk

_ESTIMATED_OVER_SECONDS = 600.0
"""Window of the speed that the time left is estimated from: long enough to include validations, short enough
to forget that the machine was busy."""
_WIDE_TERMINAL = 110
"""Minimum width in columns to show a bar beside the figures."""


@contextlib.contextmanager
def progress(total: int | None, *, unit: str, description: str, done: int = 0) -> Iterator["Progress"]:
    """Show the progress of the block, with the time left, on stderr; nothing under `--quiet`.

    Args:
        total: Number of units, or None if unknown.
        unit: Name of the units, in the plural: "updates", "lines".
        description: Name of the job, in a word or two.
        done: Number of units done before this process started, for example before a resume.
    """
    console = Console(stderr=True)
    if talk.quiet or not console.is_interactive:
        yield ProgressLines(total, unit, description, done)
        return
    wide = console.width >= _WIDE_TERMINAL
    columns: list[ProgressColumn] = [  # on a narrow terminal only the figures
        TextColumn("{task.description}", markup=False),
        *([BarColumn(bar_width=None)] if wide else []),
        MofNCompleteColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
        *([TimeElapsedColumn()] if wide else []),
        TimeRemainingColumn(),
    ]
    with Bar(
        *columns,
        console=console,
        expand=wide,
        redirect_stdout=False,
        speed_estimate_period=_ESTIMATED_OVER_SECONDS,
    ) as bar:
        yield _ProgressBar(bar, total, f"{description} ({unit})" if wide else description, done)


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
        self._done = done
        self._every_seconds, self._clock = every_seconds, clock
        self._reports = deque([(clock(), done)])
        """When a line was written, and how much was done then: the last before the window, and all in it."""

    def advance(self, count: int = 1, remark: str = "") -> None:
        """Report that `count` more units are done, with a status (`loss 3.21, 11,200 tokens/s`)."""
        self._done += count
        now = self._clock()
        if now - self._reports[-1][0] >= self._every_seconds:
            while len(self._reports) > 1 and self._reports[1][0] <= now - _ESTIMATED_OVER_SECONDS:
                self._reports.popleft()
            began, done_before = self._reports[0]
            self._reports.append((now, self._done))
            rate = (self._done - done_before) / (now - began)
            shown = f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"
            parts = (self._position(rate), f"{shown} {self._unit}/s", remark)
            notice(f"{self._description}: {', '.join(filter(None, parts))}")

    def _position(self, rate: float) -> str:
        if self._total is None:
            return f"{self._done:,} {self._unit}"
        position = f"{self._done:,}/{self._total:,} {self._unit} ({self._done / max(self._total, 1):.0%})"
        seconds_left = (self._total - self._done) / rate if rate else 0.0
        return f"{position}, {duration(seconds_left)} left" if rate else position


class _ProgressBar:
    def __init__(self, bar: Bar, total: int | None, description: str, done: int) -> None:
        self._bar = bar
        self._task = bar.add_task(description, total=total, completed=done, remark="")

    def advance(self, count: int = 1, remark: str = "") -> None:
        self._bar.update(self._task, advance=count)
        if remark:
            self._bar.update(self._task, remark=remark)


Progress = ProgressLines | _ProgressBar
"""Receiver of progress reports of a long job."""
