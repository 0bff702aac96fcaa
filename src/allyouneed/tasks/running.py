"""Starts or resumes training runs on prepared data."""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from allyouneed.config.presets import preset
from allyouneed.config.run import RunConfig
from allyouneed.errors import DataError, DiskError, ModelError, UsageError, UserError
from allyouneed.hardware.memory import require_memory
from allyouneed.hardware.precision import resolve_precision
from allyouneed.model import count_parameters
from allyouneed.storage.publish import write_text
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.tasks.prepared_data import PreparedData
from allyouneed.training.averaging import average as average_checkpoints
from allyouneed.training.averaging import last_checkpoints
from allyouneed.training.distributed import Processes, device_of_process, joined_processes, num_restarts
from allyouneed.training.saves import save_bytes
from allyouneed.training.trainer import Corpus, Report, Trainer
from allyouneed.training.validation import LOSS_ALONE, Validation

_MAY_CHANGE = {
    "num_steps",
    "budget_flops",
    "budget_seconds",
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "keep_checkpoints",
    "average_last",
    "validate_every_steps",
    "patience",
}
"""Training settings that may change when a run resumes; the updates do not depend on them."""


def train(
    run: Path | str,
    data: Path | str,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> signal.Signals | None:
    """Train a model in `run` on prepared data, or resume where an earlier call stopped.

    Under `torchrun`, all processes train the same model together.

    Args:
        run: The run directory, which is created; if it exists, `resume` must be set.
        data: A directory made by `prepare`.
        config: The configuration; by default the run's own, or else the paper's preset for the task.
        resume: Resume from the last checkpoint; start if there is none; do nothing if all steps are done.
        device: Device to compute on.
        report: Receives every event of the log.
        say: Receives a line when the run starts or resumes.

    Returns:
        The signal that ended the run early, if any; its state is then saved, and the run can be resumed.

    Raises:
        UsageError: `run` exists and `resume` is not set, or a setting does not fit or has changed.
        DataError: The run was started with other data.
        ModelError: A directory is damaged.
        LockedError: Another process is training in `run`.
        DivergedError: Three updates in a row, or a weight, are not finite.
        ResourceError: There is not enough memory, or a process of the run was lost.
    """
    directory, prepared = RunDirectory(Path(run)), PreparedData(data)
    device = device_of_process(torch.device(device))
    with joined_processes(device) as processes, contextlib.ExitStack() as stack:

        def begin() -> str:
            """Set up the run in the first process, the only one that accesses the run directory."""
            require_run(directory, resume or (num_restarts() > 0 and directory.is_of_launcher()))
            stack.enter_context(directory.locked())
            return run_config(directory, config, prepared, device, processes.size).model_dump_json()

        complete = RunConfig.model_validate_json(processes.told_by_first(begin))
        trainer = _trainer(complete, prepared, directory, device, processes, report, say)
        return _train(trainer) if processes.is_first else trainer.train()


def _trainer(
    config: RunConfig,
    prepared: PreparedData,
    directory: RunDirectory,
    device: torch.device,
    processes: Processes,
    report: Report,
    say: Callable[[str], None],
) -> Trainer:
    """The trainer of a run, restored to the run's latest state."""
    steps = directory.resumable_steps() if processes.is_first else []
    trainer = Trainer(
        config,
        Corpus(prepared.train, prepared.valid, prepared.tokenizers, prepared.facts),
        directory,
        device,
        processes=processes,
        validation=_validation(prepared, config),
        report=report,
        is_resumed=bool(steps),
    )
    processes.first_alone(lambda: _load(trainer, steps, say))
    return trainer


def _validation(prepared: PreparedData, config: RunConfig) -> Validation:
    """Scores of a model's outputs on the validation data; the loss alone if there is no such data."""
    if prepared.valid is None:
        return LOSS_ALONE
    lines = prepared.lines("valid", "source"), prepared.lines("valid", "target")
    scores = prepared.task.validation(*lines, prepared.units, config)
    return Validation(scores, prepared.task.score)


def _load(trainer: Trainer, steps: list[int], say: Callable[[str], None]) -> None:
    """Restore the run's latest state, if any, and record its configuration."""
    trainer.run.require_space(save_bytes(trainer.model))
    if steps:
        _resume(trainer, steps, say)
    write_text(trainer.run.config, trainer.config.to_toml())


def average(
    run: Path | str,
    out: Path | str,
    last: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Average the last checkpoints of a run into one model (paper 6.1).

    Args:
        run: The run.
        out: The model directory to make; it must not exist, or be empty.
        last: Number of checkpoints; by default the run's `average_last`, or all if there are fewer.
        say: Receives a message if leftovers of a killed process at `out` are removed.

    Returns:
        The checkpoints that were averaged.

    Raises:
        UsageError: `out` is not free, or the run has fewer than `last` checkpoints.
        ModelError: The run has no checkpoint, or one is damaged.
        LockedError: Another process is making `out`.
    """
    checkpoints = last_checkpoints(Path(run), last)
    average_checkpoints(checkpoints, Path(out), say)
    return checkpoints


def require_run(directory: RunDirectory, resume: bool) -> None:
    """Reject an existing run, unless it is to be resumed, and any folder that is not a run."""
    if directory.is_new():
        return
    if not directory.is_run():
        raise UsageError(f"{directory.path}: exists and is no run; name a new folder")
    if not resume:
        raise UsageError(
            f"{directory.path}: exists; continue with resume, or name a new folder", settings=["resume"]
        )


def run_config(
    directory: RunDirectory,
    given: RunConfig | None,
    prepared: PreparedData,
    device: torch.device,
    num_processes: int = 1,
) -> RunConfig:
    """The complete configuration: `given`, or else the run's own, fitted to data, device and processes."""
    recorded = RunConfig.from_toml(directory.config) if directory.config.is_file() else None
    if recorded is None:
        default = preset(prepared.task.default_preset)
        return completed(given or default, prepared, device, num_processes)
    _require_same_vocabularies(directory.path, recorded, prepared)
    if given is None:
        return recorded
    # Values that were chosen at the start stay, unless set explicitly.
    training = given.training
    kept = {
        name: getattr(recorded.training, name)
        for name, unset in (("precision", "auto"), ("micro_batch_tokens", None))
        if getattr(training, name) == unset
    }
    if recorded.training.threads_share == "operations":  # as before this was a setting
        kept["threads_share"] = "operations"
    counts = {"neighbourhood_counts": recorded.model.neighbourhood_counts}  # of the version it began with
    config = completed(given.replace(training=kept, model=counts), prepared, device)
    _require_same(directory.path, recorded, config)
    return config


def completed(
    config: RunConfig, prepared: PreparedData, device: torch.device, num_processes: int = 1
) -> RunConfig:
    """`config` with the data's vocabulary sizes, a precision and a micro-batch size.

    Raises:
        UsageError: A setting does not fit the data or the architecture.
        ResourceError: The model does not fit into memory.
    """
    training = config.training
    longest = _longest(prepared)
    if config.model.positions == "learned" and longest > config.model.max_positions:
        raise UsageError(
            f"model.max_positions = {config.model.max_positions} is too small: the longest sentence has "
            f"{longest} tokens, end symbol included; raise it, or prepare data with a smaller max_tokens",
            settings=["max_tokens"],
        )
    if training.sharded and config.model.architecture != "transformer":
        raise UsageError(
            f"training.sharded: is for the transformer, not for model.architecture = "
            f"{config.model.architecture}; leave it out"
        )
    model: dict[str, Any] = {
        "source_vocab_size": prepared.source_vocab_size,
        "target_vocab_size": prepared.target_vocab_size,
    }
    if config.model.guided_alignment:
        ids_per_word = prepared.task.ids_per_word(prepared.config)
        if ids_per_word is None:
            raise UsageError(
                "model.guided_alignment: wants as many ids for every word on both sides; prepare trees with "
                "tokenizer words and brackets joined, or set it to 0",
                settings=["tokenizer", "brackets"],
            )
        model["ids_per_word"] = ids_per_word
    if not prepared.config.joint_vocabulary and config.model.tied_embeddings == "all":
        model["tied_embeddings"] = "target"
    complete = config.replace(
        model=model,
        data=prepared.config.model_dump(),
        training={
            "precision": resolve_precision(training.precision, device),
            "micro_batch_tokens": training.resolved_micro_batch_tokens(longest, num_processes),
        },
    )
    kept_here = 1 if training.sharded or device.type != "cpu" else 4  # weights; gradients, Adam's moments
    require_memory(kept_here * 4 * count_parameters(complete.model))
    return complete


def _longest(prepared: PreparedData) -> int:
    """Number of tokens of the longest sentence, including its end symbol."""
    stores = [store for store in (prepared.train, prepared.valid) if store is not None]
    return 1 + max(int(max(store.source_lengths.max(), store.target_lengths.max())) for store in stores)


def _require_same_vocabularies(run: Path, recorded: RunConfig, prepared: PreparedData) -> None:
    began = recorded.model.source_vocab_size, recorded.model.target_vocab_size
    if began != (prepared.source_vocab_size, prepared.target_vocab_size):
        raise DataError(
            f"{run}: began with vocabularies of {began[0]} and {began[1]}, {prepared.directory} has "
            f"{prepared.source_vocab_size} and {prepared.target_vocab_size}; "
            "name the data it began with, or train a new run"
        )


def _require_same(run: Path, recorded: RunConfig, given: RunConfig) -> None:
    """Refuse to resume if a setting that affects the updates differs from the run's."""
    old, new = recorded.model_dump(), given.model_dump()
    changed = [
        f"{run}: began with {group}.{name} = {old[group][name]}, now {value} is given; "
        "leave it out to go on, or train a new run"
        for group in ("model", "training")
        for name, value in new[group].items()
        if value != old[group][name] and name not in _MAY_CHANGE
    ]
    if changed:
        raise UsageError(changed)


def _resume(trainer: Trainer, steps: list[int], say: Callable[[str], None]) -> None:
    """Load the newest intact state among `steps`.

    Raises:
        ModelError: All states are damaged.
    """
    for step in reversed(steps):
        try:
            trainer.resume(step)
        except ModelError as error:
            say(f"NOTICE: {error.messages[0]}; the checkpoint before it is tried")
            continue
        say(f"{trainer.run.path}: resumed at step {step:,}")
        return
    raise ModelError(
        f"{trainer.run.path}: every checkpoint with a state is damaged; `verify` names the files"
    )


def _train(trainer: Trainer) -> signal.Signals | None:
    """Train, and record in `exit.json` how the run ended."""
    trainer.run.forget_exit()
    try:
        received = trainer.train()
    except UserError as error:
        with contextlib.suppress(DiskError):  # the original error matters more than the record of it
            trainer.run.write_exit(error.exit_code, trainer.step, error.messages[0])
        raise
    _write_exit(trainer, received)
    return received


def _write_exit(trainer: Trainer, received: signal.Signals | None) -> None:
    if received is not None:
        trainer.run.write_exit(128 + received, trainer.step, received.name)
    elif trainer.step < trainer.config.training.num_steps:
        trainer.run.write_exit(
            0, trainer.step, "out of budget" if trainer.is_over_budget else "out of patience"
        )
    else:
        trainer.run.write_exit(0, trainer.step, "finished")
