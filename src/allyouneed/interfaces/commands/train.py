"""`allyouneed train`: from prepared data to a trained model."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.interfaces.configuration import NOTHING_ASKED, ConfigurationOptions
from allyouneed.interfaces.console import notice
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.run_reporter import RunReporter

if TYPE_CHECKING:
    from allyouneed.config import RunConfig


def train(
    run: Path,
    /,
    *,
    data: Path,
    configuration: ConfigurationOptions = NOTHING_ASKED,
    steps: int | None = None,
    resume: bool = False,
    device: Device = "auto",
) -> int:
    """Train a Transformer on prepared data.

    ```
    allyouneed train runs/first --data data --preset multi30k_tiny
    allyouneed train runs/first --data data --resume
    allyouneed train runs/second --data data --set training.warmup_steps=8000 model.dropout=0.2
    ```

    The run keeps its checkpoints, its log (`log.jsonl`) and its curves (`loss.png`, `bleu.png`). It can be
    stopped at any time, and goes on with `--resume`: on a CPU as if it had not been, bit for bit.

    Args:
        run: The folder of the run.
        data: What `allyouneed prepare` has made.
        configuration: What to train.
        steps: Updates of the whole run; short for `--set training.num_steps=N`.
        resume: Go on from the last checkpoint; begin if there is none.
        device: Where to compute.
    """
    settings = () if steps is None else (f"training.num_steps={steps}",)
    chosen = _chosen(run, configuration, settings)  # before torch is loaded: a slip shows at once

    from allyouneed.runs import train as train_run

    with contextlib.ExitStack() as stack:
        reporter = RunReporter(run, stack)
        received = train_run(
            run, data, chosen, resume=resume, device=torch_device(device), report=reporter, say=notice
        )
    if received is not None:
        notice(f"{run}: stopped by {received.name} with everything saved; go on with --resume")
        return 128 + received
    notice(f"{run}: finished; `allyouneed average {run} --out MODEL` makes the model to use")
    return 0


def _chosen(run: Path, options: ConfigurationOptions, settings: Sequence[str]) -> "RunConfig | None":
    """The configuration asked for; None where nothing is, so that a run that is there keeps its own."""
    from allyouneed.config import RunConfig
    from allyouneed.presets import base

    if options == NOTHING_ASKED and not settings:
        return None
    recorded = run / "config.toml"
    otherwise = RunConfig.from_toml(recorded) if recorded.is_file() else base()
    return options.resolve(otherwise).with_settings(settings)
