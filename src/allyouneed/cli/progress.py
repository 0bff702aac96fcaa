"""Progress of a long job: a bar on a terminal, elsewhere a plain line every half minute."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from allyouneed.errors import counted, duration, notice, talk

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
        unit: Name of the units, in the plural: "updates", "lines". Bytes are shown as kB, MB, etc. Seconds
            have no speed, so the remark should tell one.
        description: Name of the job, in a word or two.
        done: Number of units done before this process started, for example before a resume.
    """
    console = Console(stderr=True)
    is_terminal = console.is_interactive and console.file.isatty()  # FORCE_COLOR alone makes no terminal
    if talk.quiet or not is_terminal:
        yield ProgressLines(total, unit, description, done)
        return
    wide = console.width >= _WIDE_TERMINAL
    columns: list[ProgressColumn] = [  # on a narrow terminal only the figures
        TextColumn("{task.description}", markup=False),
        *([BarColumn(bar_width=None)] if wide else []),
        _Position(unit),
        _Remark(),
        *([TimeElapsedColumn()] if wide or total is None else []),
        *([] if total is None else [TimeRemainingColumn()]),
    ]
    with Bar(
        *columns,
        console=console,
        expand=wide,
        redirect_stdout=False,
        speed_estimate_period=_ESTIMATED_OVER_SECONDS,
    ) as bar:
        yield _ProgressBar(bar, total, f"{description} ({unit})" if wide else description, done)


@contextlib.contextmanager
def watch(unit: str, phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of a phase of a job, in these units; yield what receives numbers of them."""
    with progress(total, unit=unit, description=phase) as shown:
        yield shown.advance


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
        self._done_before, self._done = done, 0
        self._every_seconds, self._clock = every_seconds, clock
        self._reports = deque([(clock(), 0)])
        """When a line was written, and how much was done then: the last before the window, and all in it."""

    def skip(self, count: int) -> None:
        """Report that an earlier process did `count` units, which say nothing about the speed of this one."""
        self._done_before += count

    def expect(self, total: int) -> None:
        """Report that there are this many units in all."""
        self._total = total

    def advance(self, count: int = 1, remark: str = "") -> None:
        """Report that `count` more units are done, with a status (`loss 3.21, 11,200 tokens/s`)."""
        self._done += count
        now = self._clock()
        if now - self._reports[-1][0] >= self._every_seconds:
            while len(self._reports) > 1 and self._reports[1][0] <= now - _ESTIMATED_OVER_SECONDS:
                self._reports.popleft()
            began, done_then = self._reports[0]
            self._reports.append((now, self._done))
            rate = (self._done - done_then) / (now - began)
            speed = "" if self._unit == "seconds" else f"{_amount(rate, unit=self._unit)}/s"
            notice(f"{self._description}: {', '.join(filter(None, (self._position(rate), speed, remark)))}")

    def _position(self, rate: float) -> str:
        done = self._done_before + self._done
        if self._total is None:
            return _amount(done, unit=self._unit)
        position = f"{_amount(done, self._total, unit=self._unit)} ({done / max(self._total, 1):.0%})"
        seconds_left = max(self._total - done, 0) / rate if rate else 0.0
        return f"{position}, {duration(seconds_left)} left" if rate else position


class _ProgressBar:
    def __init__(self, bar: Bar, total: int | None, description: str, done: int) -> None:
        self._bar = bar
        self._task = bar.add_task(description, total=total, completed=done, remark="")

    def skip(self, count: int) -> None:
        self._bar.tasks[0].completed += count  # `update` would count it as speed

    def expect(self, total: int) -> None:
        self._bar.update(self._task, total=total)

    def advance(self, count: int = 1, remark: str = "") -> None:
        self._bar.update(self._task, advance=count)
        if remark:
            self._bar.update(self._task, remark=remark)


class _Position(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit if unit == "bytes" else ""

    def render(self, task: Task) -> Text:
        counts = (count for count in (task.completed, task.total) if count is not None)
        return Text(_amount(*counts, unit=self._unit).rstrip())


class _Remark(ProgressColumn):
    """The status of the job: the only column that a narrow terminal cuts off, as the others may not wrap."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["remark"], no_wrap=True, overflow="ellipsis")


def _amount(*counts: float, unit: str) -> str:
    """Numbers of units, of bytes in larger units, such as `3.4 GB`."""
    if unit == "bytes":
        return "/".join(decimal(int(count)) for count in counts)
    return counted(*counts, unit=unit)


Progress = ProgressLines | _ProgressBar
