"""`--tensorboard`: writes the figures of a run for TensorBoard."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.errors import UsageError

if TYPE_CHECKING:
    from allyouneed.storage.run_log import Event


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
