"""`allyouneed train`: from prepared data to a trained model."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from allyouneed.cli.progress import watch
from allyouneed.cli.run_length import Length, MonolingualOptions, TestOptions, print_scores
from allyouneed.cli.run_reporter import run_reporter
from allyouneed.cli.shared_options import (
    ConfigurationOptions,
    ContinuationOptions,
    Device,
    torch_device,
)
from allyouneed.config.environment import num_processes
from allyouneed.errors import UsageError, notice, talk
from allyouneed.storage.run_directory import FIRST_MODELS

if TYPE_CHECKING:
    import signal

    from allyouneed.config.run import RunConfig
    from allyouneed.runs.budgeting import Budget


def train(
    run: Path,
    /,
    *,
    data: Path,
    configuration: ConfigurationOptions = ConfigurationOptions(),
    continuation: ContinuationOptions = ContinuationOptions(),
    length: Length = Length(),
    monolingual: MonolingualOptions = MonolingualOptions(),
    tests: TestOptions = TestOptions(),
    precision: Literal["float32", "bfloat16"] | None = None,
    resume: bool = False,
    device: Device = "auto",
    tensorboard: bool = False,
    dry_run: bool = False,
    json_: bool = False,
) -> int:
    """Train a Transformer on prepared data.

    ```
    allyouneed train runs/best --data data --budget 60m
    allyouneed train runs/better --data data --budget 60m --monolingual more.de
    allyouneed train runs/first --data data --preset laptop --minutes 12
    allyouneed train runs/second --data data --set training.warmup_steps=8000 model.dropout=0.2
    allyouneed train runs/third --data data --preset big --dry-run
    allyouneed train runs/more --data more --init-from models/first --replay data --replay-share 0.2
    ```

    RUN holds checkpoints, a log (`log.jsonl`) and curves (`loss.png`, `bleu.png`). Stop it at any time and
    continue it with `--resume`; on a CPU, the result is the same, bit for bit.

    Args:
        run: The run directory.
        data: Data from `allyouneed prepare`.
        configuration: The configuration to train.
        continuation: The model to continue, and the data to replay.
        length: When the run ends.
        monolingual: Text without translations.
        tests: Held-out text to score the model of a budget with.
        precision: Precision of matrix products; by default bfloat16 on hardware where it is faster.
        resume: Continue from the last checkpoint, or start if there is none.
        device: Device to compute on.
        tensorboard: Also write the curves for TensorBoard, into RUN/tensorboard.
        dry_run: Check everything, time several updates, and print what the run would take; writes nothing.
        json_: With `--dry-run`, print one JSON object.
    """
    _check_rehearsal(dry_run, json_)
    monolingual.require_budget(length, continuation)
    texts = tests.texts(length)
    chosen = _chosen(run, data, configuration, continuation, length, monolingual, precision)
    asked = run, data, chosen, resume, device
    if dry_run:
        _print_rehearsal(*asked, json_)
        return 0
    if received := _train(*asked, tensorboard):
        notice(f"{run}: stopped by {received.name} with everything saved; continue with --resume")
        return 128 + received
    _notice_end(run)
    print_scores(run, texts, device)
    return 0


def _train(
    run: Path,
    data: Path,
    config: "RunConfig | Budget | None",
    resume: bool,
    device: Device,
    tensorboard: bool,
) -> "signal.Signals | None":
    """Train one model, or several after one another; return the signal that ended one early, if any."""
    from allyouneed.runs.monolingual import phases  # loads PyTorch, so after the checks
    from allyouneed.runs.starting import train_phase

    where, shown = torch_device(device), partial(watch, "lines")
    for phase in phases(run, data, config, resume=resume, device=where, say=notice, watch=shown):
        with run_reporter(phase.run, tensorboard=tensorboard) as report:
            received = train_phase(phase, device=where, report=report, say=notice)
        if received is not None:
            return received
    return None


def _check_rehearsal(dry_run: bool, json_: bool) -> None:
    if json_ and not dry_run:
        raise UsageError("--json: is for --dry-run; the figures of a run are in its log.jsonl")
    if dry_run and num_processes() > 1:
        raise UsageError("--dry-run: is for one process; start it without torchrun")


def _notice_end(run: Path) -> None:
    """Report why training ended, its best checkpoint, and the next command."""
    if talk.quiet:  # also set in all processes of `torchrun` but the first, which may still be writing
        return
    from allyouneed.config.run import RunConfig
    from allyouneed.runs.budgeting import advice
    from allyouneed.storage.run_directory import RunDirectory

    directory = RunDirectory(run)
    ended = json.loads((run / "exit.json").read_bytes())
    if (best := directory.marked("best")) is not None:
        notice(f"{run}: best on the validation data: {directory.checkpoint(best)}")
    finished = ended["reason"] == "finished"
    how = "finished" if finished else f"stopped at step {ended['step']:,}, {ended['reason']}"
    if RunConfig.from_toml(directory.config).training.planned_seconds is not None:
        notice(f"{run}: {how}; translate with `allyouneed translate {shlex.quote(str(run))}`")
        if remark := advice(directory):
            notice(f"{run}: {remark}")
        return
    notice(f"{run}: {how}; make a model with `allyouneed average {shlex.quote(str(run))} --out MODEL`")


def _print_rehearsal(
    run: Path, data: Path, config: "RunConfig | Budget | None", resume: bool, device: Device, json_: bool
) -> None:
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.runs.budgeting import Budget
    from allyouneed.runs.monolingual import phases
    from allyouneed.runs.rehearsing import as_json, as_text, rehearse

    where = torch_device(device)
    [last] = phases(run, data, config, resume=resume, say=notice, rehearsal=True)
    if isinstance(config := last.config, Budget):
        config = config.config(PreparedData(data), where, say=notice)
    found = rehearse(run, data, config, resume=last.resume, device=where, say=notice)
    print(json.dumps(as_json(found)) if json_ else "\n".join(as_text(found)))


def _chosen(
    run: Path,
    data: Path,
    options: ConfigurationOptions,
    continuation: ContinuationOptions,
    length: Length,
    monolingual: MonolingualOptions,
    precision: str | None,
) -> "RunConfig | Budget | None":
    """The configuration of a run, a budget that chooses it for a new run, or None if nothing is asked for."""
    from allyouneed.config.run import RunConfig
    from allyouneed.runs.budgeting import Budget

    options.require_sub_words(data)
    recorded, settings = run / "config.toml", length.settings()
    if precision is not None:
        settings.append(f'training.precision="{precision}"')
    has_text = monolingual != MonolingualOptions() or (run / FIRST_MODELS).exists()
    has_plan = length.budget is not None and has_text  # which tells what the run was begun with
    begun = RunConfig.from_toml(recorded) if recorded.is_file() and not has_plan else None
    if begun and length.budget is not None:
        length.require_same(run, begun)
        if any((options.preset, options.fidelity, options.config)):
            notice(f"{run}: goes on with the settings that it was begun with, not those of preset or file")
        options = replace(options, preset=None, fidelity=None, config=None)
    given = _given(None if has_plan else run, data, options, continuation, settings)
    if length.budget is not None and not begun:
        given_model = options.preset, options.config, options.fidelity, continuation.init_from
        has_model = any(given_model) or options.sets("training.init_from")
        if not has_model and continuation.replay is not None:
            raise UsageError("--replay: is for a model to continue; give --init-from, or a --preset")
        chosen = [*options.settings(), *settings]
        return Budget(length.budget, given if has_model else None, chosen, **vars(monolingual))
    if given is None or options.config or options.sets("training.warmup_steps"):
        return given
    if not begun:
        return length.fitted(given)
    fitted = begun.training.model_dump(include={"warmup_steps", "learning_rate_factor"})
    kept = {name: value for name, value in fitted.items() if not options.sets(f"training.{name}")}
    return given.replace(training=kept) if options.preset else given


def _given(
    run: Path | None,
    data: Path,
    options: ConfigurationOptions,
    continuation: ContinuationOptions,
    settings: Sequence[str],
) -> "RunConfig | None":
    """The configuration in these options; None if none is given, so that an existing `run` keeps its own."""
    from allyouneed.config.presets import preset
    from allyouneed.config.run import RunConfig
    from allyouneed.preparation.prepared_data import PreparedData
    from allyouneed.runs.initial_model import continue_from

    if options == ConfigurationOptions() and continuation == ContinuationOptions() and not settings:
        return None
    for each in options.set_ or ():
        name = each.partition("=")[0].strip()
        if name.startswith("data.") or name in ("model.source_vocab_size", "model.target_vocab_size"):
            raise UsageError(f"--set {name}: is a setting of `prepare`, which the data has; leave it out")

    def resolved(options: ConfigurationOptions, otherwise: RunConfig) -> RunConfig:
        return continuation.applied_to(options.resolve(otherwise).with_settings(settings))

    def continued(begun: RunConfig) -> RunConfig:
        if options.preset is not None:  # has the architecture of the model that is continued
            begun = preset(options.preset).replace(model=begun.model.model_dump())
        return resolved(replace(options, preset=None), begun)

    if run and (recorded := run / "config.toml").is_file():
        begun = RunConfig.from_toml(recorded)
        if options.preset is None or begun.training.init_from is None:
            return resolved(options, begun)
        return continued(begun)
    model = continuation.init_from
    if model is None:
        default = preset(options.preset or PreparedData(data).task.default_preset)
        chosen = resolved(options, default)
        if chosen.training.init_from is None:
            return chosen
        model = Path(chosen.training.init_from)  # named by --config or --set
    return continued(continue_from(model))
