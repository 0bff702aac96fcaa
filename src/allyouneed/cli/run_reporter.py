"""Live report of a training run: progress, a line per validation, up-to-date curves, and TensorBoard."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.cli.progress import Progress, progress
from allyouneed.config.run import RunConfig
from allyouneed.errors import UsageError, UserError, counted, notice
from allyouneed.interop.export_limits import exports_line

if TYPE_CHECKING:
    from allyouneed.storage.run_log import Event
    from allyouneed.training.trainer import Report


class TensorBoard:
    """Receives the events of the run at `run`, and writes `run`/tensorboard; `stack` closes the file.

    Raises:
        UsageError: The package tensorboard is not installed.
    """

    def __init__(self, run: Path, stack: contextlib.ExitStack) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UsageError(
                "--tensorboard needs tensorboard: pip install 'allyouneed[tensorboard]'"
            ) from None
        self._open, self._folder, self._stack = SummaryWriter, run / "tensorboard", stack

    def __call__(self, event: "Event") -> None:
        """Write the numbers of one event of the run's log, as `train/loss` and so on."""
        match event["event"]:
            case "start":
                # Hide the later steps that an earlier process wrote.
                self._writer = self._open(str(self._folder), purge_step=event["step"] + 1)
                self._stack.callback(self._writer.close)
            case "train" | "validate" as kind:
                for name, value in event.items():
                    if name != "step" and isinstance(value, int | float):
                        self._writer.add_scalar(f"{kind}/{name}", value, event["step"])
            case "checkpoint":
                self._writer.flush()


_UNITS = {"seconds": ("seconds", 1), "matmul_flops": ("GFLOPs", 1e9), "step": ("updates", 1)}
"""Field of a `train` event -> unit to show it in: its name, and its size in the event's own unit."""


class RunReporter:
    """Receives the events of the run at `run`, one by one; `stack` closes its progress bar."""

    def __init__(self, run: Path, stack: contextlib.ExitStack) -> None:
        self._run, self._stack = run, stack
        self._counted, self._size, self._done = "step", 1.0, 0
        self._bar: Progress | None = None

    def __call__(self, event: "Event") -> None:
        """Show one event of the run's log."""
        match event["event"]:
            case "start":
                self._start(event)
            case "train" if self._bar is not None:
                done = int(event[self._counted] / self._size)
                self._bar.advance(done - self._done, _how_it_goes(event, with_pace=self._counted != "step"))
                self._done = done
            case "validate":
                notice(_described(event))
            case "notice":
                notice(f"{self._run}: {event['text']}")
                if "num_steps" in event and self._bar is not None and self._counted == "step":
                    self._bar.expect(event["num_steps"])
            case "checkpoint":
                self._draw()

    def _start(self, event: "Event") -> None:
        """Announce the limits of the run, and start a bar for the first budget, or else for the updates."""
        limits = {**event["budgets"], "step": (event["step"], event["num_steps"])}
        units = {field: _UNITS[field] for field in limits}
        ends = [counted(limits[field][1] / size, unit=unit) for field, (unit, size) in units.items()]
        notice(f"{self._run}: {event['parameters']:,} parameters, {' or '.join(ends)} in all")
        if (config := self._run / "config.toml").is_file():
            exports = exports_line(RunConfig.from_toml(config))
            notice(f"{self._run}: can be exported to {exports}")
        self._counted, (used, limit) = next(iter(limits.items()))
        unit, self._size = _UNITS[self._counted]
        self._done = int(used / self._size)
        self._bar = self._stack.enter_context(
            progress(math.ceil(limit / self._size), unit=unit, description="training", done=self._done)
        )

    def _draw(self) -> None:
        from allyouneed.tasks.plots import plot_run

        try:
            plot_run(self._run)
        except UserError as error:  # no reason to stop: the checkpoint is safe
            notice(f"NOTICE: {error.messages[0]}; the run goes on without the picture")


@contextlib.contextmanager
def run_reporter(run: Path, *, tensorboard: bool = False) -> Iterator["Report"]:
    """Receives the events of a run: reports them, for TensorBoard, too, if wanted, until the block ends."""
    with contextlib.ExitStack() as stack:
        receivers: list[Report] = [
            RunReporter(run, stack),
            *([TensorBoard(run, stack)] if tensorboard else []),
        ]

        def report(event: "Event") -> None:
            for receiver in receivers:
                receiver(event)

        yield report


def _how_it_goes(event: "Event", *, with_pace: bool) -> str:
    """`loss 3.21, 2.5 updates/s, 11,200 tokens/s, 47% of peak, 1.9 GiB`: the last two if the event has them.

    The pace is updates per second, which progress that counts updates shows itself.
    """
    parts = [f"loss {event['loss']:.2f}"]
    if with_pace:
        parts.append(f"{counted(event['updates_per_second'], unit='updates')}/s")
    parts.append(f"{event['target_tokens_per_second']:,.0f} tokens/s")
    if "share_of_peak" in event:
        parts.append(f"{event['share_of_peak']:.0%} of peak")
    if "memory_bytes" in event:
        parts.append(f"{event['memory_bytes'] / 2**30:.1f} GiB")
    return ", ".join(parts)


def _described(event: "Event") -> str:
    from allyouneed.tasks.catalogue import TASKS

    named = ((task.score_label, event[task.score]) for task in TASKS.values() if task.score in event)
    scores = "".join(f", {label} {value:.2f} (greedy)" for label, value in named)
    loss = f"validation loss {event['loss']:.3f}, perplexity {event['perplexity']:.2f}"
    return f"step {event['step']:,}: {loss}{scores}"
