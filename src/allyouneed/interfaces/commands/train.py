"""`allyouneed train`: from prepared data to a trained model."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from allyouneed.config.variables import num_processes
from allyouneed.errors import UsageError
from allyouneed.interfaces.configuration import NOTHING_ASKED, ConfigurationOptions
from allyouneed.interfaces.console import notice, talk
from allyouneed.interfaces.device import Device, torch_device
from allyouneed.interfaces.number_options import Whole
from allyouneed.interfaces.reports.run_reporter import RunReporter
from allyouneed.interfaces.reports.tensorboard import TensorBoard

if TYPE_CHECKING:
    from allyouneed.config.run import RunConfig
    from allyouneed.storage.run_log import Event
    from allyouneed.training.trainer import Report


def train(
    run: Path,
    /,
    *,
    data: Path,
    configuration: ConfigurationOptions = NOTHING_ASKED,
    steps: Whole | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
    resume: bool = False,
    device: Device = "auto",
    tensorboard: bool = False,
    dry_run: bool = False,
    json_: bool = False,
) -> int:
    """Train a Transformer on prepared data.

    ```
    allyouneed train runs/first --data data --preset multi30k_tiny
    allyouneed train runs/first --data data --resume
    allyouneed train runs/second --data data --set training.warmup_steps=8000 model.dropout=0.2
    allyouneed train runs/third --data data --preset big --dry-run
    ```

    The run keeps its checkpoints, its log (`log.jsonl`) and its curves (`loss.png`, `bleu.png`). It can be
    stopped at any time, and goes on with `--resume`: on a CPU as if it had not been, bit for bit.

    Args:
        run: The folder of the run.
        data: What `allyouneed prepare` has made.
        configuration: What to train.
        steps: Updates of the whole run; short for `--set training.num_steps=N`.
        precision: Precision of the matrix products; by default bfloat16 if the hardware supports it.
        resume: Go on from the last checkpoint; begin if there is none.
        device: Device to compute on.
        tensorboard: Write the figures for TensorBoard too, into RUN/tensorboard.
        dry_run: Check everything, time a few updates on a model that is thrown away, and print what the run
            would be; nothing is written.
        json_: With `--dry-run`: print one JSON object.
    """
    _check_rehearsal(dry_run, json_)
    asked = {"training.num_steps": steps, "training.precision": precision and f'"{precision}"'}
    settings = [f"{name}={value}" for name, value in asked.items() if value is not None]
    chosen = _chosen(run, data, configuration, settings)  # before torch is loaded: a slip shows at once

    if dry_run:
        _print_rehearsal(run, data, chosen, resume, device, json_)
        return 0

    from allyouneed.tasks.running import train as train_run

    with contextlib.ExitStack() as stack:
        report = _reporter(run, tensorboard, stack)
        received = train_run(
            run, data, chosen, resume=resume, device=torch_device(device), report=report, say=notice
        )
    if received is not None:
        notice(f"{run}: stopped by {received.name} with everything saved; go on with --resume")
        return 128 + received
    _notice_end(run)
    return 0


def _check_rehearsal(dry_run: bool, json_: bool) -> None:
    if json_ and not dry_run:
        raise UsageError("--json is for --dry-run; a run's own figures are in its log.jsonl")
    if dry_run and num_processes() > 1:
        raise UsageError("--dry-run is for one process; run it without torchrun")


def _reporter(run: Path, tensorboard: bool, stack: contextlib.ExitStack) -> "Report":
    """What the run's events are handed to."""
    shown = RunReporter(run, stack)
    if not tensorboard:
        return shown
    board = TensorBoard(run, stack)

    def report(event: "Event") -> None:
        shown(event)
        board(event)

    return report


def _notice_end(run: Path) -> None:
    """Say why training is over, what it has found, and what to do with it."""
    if talk.quiet:  # as all processes of `torchrun` but the first are, which may be still writing
        return
    from allyouneed.storage.run_directory import RunDirectory

    directory = RunDirectory(run)
    ended = json.loads((run / "exit.json").read_bytes())
    if (best := directory.marked("best")) is not None:
        notice(f"{run}: the best on the validation data is {directory.checkpoint(best)}")
    finished = ended["reason"] == "finished"
    how = "finished" if finished else f"stopped at step {ended['step']:,}, {ended['reason']}"
    notice(f"{run}: {how}; `allyouneed average {run} --out MODEL` makes the model to use")


def _print_rehearsal(
    run: Path, data: Path, config: "RunConfig | None", resume: bool, device: Device, json_: bool
) -> None:
    from allyouneed.interfaces.reports.rehearsal_text import as_json, as_text
    from allyouneed.tasks.rehearsing import rehearse

    found = rehearse(run, data, config, resume=resume, device=torch_device(device), say=notice)
    print(json.dumps(as_json(found)) if json_ else "\n".join(as_text(found)))


def _chosen(
    run: Path, data: Path, options: ConfigurationOptions, settings: Sequence[str]
) -> "RunConfig | None":
    """The configuration asked for; None where nothing is, so that a run that is there keeps its own."""
    from allyouneed.config.presets import preset
    from allyouneed.config.run import RunConfig
    from allyouneed.tasks.prepared_data import PreparedData

    if options == NOTHING_ASKED and not settings:
        return None
    recorded = run / "config.toml"
    if recorded.is_file():
        otherwise = RunConfig.from_toml(recorded)
    else:
        otherwise = preset(options.preset or PreparedData(data).task.default_preset)
    return options.resolve(otherwise).with_settings(settings)
