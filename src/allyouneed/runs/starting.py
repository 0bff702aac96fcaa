"""Starts or resumes training runs on prepared data."""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import torch

from allyouneed.config.run import RunConfig
from allyouneed.errors import DiskError, ModelError, ResourceError, UserError, is_out_of_memory
from allyouneed.hardware.devices import usable_device
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.budgeting import Budget
from allyouneed.runs.initial_model import InitialModel
from allyouneed.runs.monolingual import Phase, phases
from allyouneed.runs.run_configuration import run_config, training_pairs
from allyouneed.storage.checkpoint import load_checkpoint
from allyouneed.storage.publish import write_text
from allyouneed.storage.run_directory import RunDirectory, require_run
from allyouneed.storage.run_log import Event
from allyouneed.training.averaging import average as average_checkpoints
from allyouneed.training.averaging import last_checkpoints
from allyouneed.training.distributed import Processes, device_of_process, joined_processes, num_restarts
from allyouneed.training.meters import LOSS_ALONE, Best
from allyouneed.training.optimizer import WarmUpWatch
from allyouneed.training.saves import load_initial_weights, save_bytes
from allyouneed.training.trainer import Corpus, Report, Trainer


def train(
    run: Path | str,
    data: Path | str,
    config: RunConfig | Budget | None = None,
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
        config: The configuration; by default the run's own, or else the paper's preset for the task. A budget
            chooses one for a new run, whose last checkpoint is the model to use.
        resume: Resume from the last checkpoint; start if there is none; do nothing if all steps are done.
        device: Device to compute on.
        report: Receives every event of the log, also those of models that a budget with monolingual text
            trains first.
        say: Receives a line when the run starts or resumes.

    Returns:
        The signal that ended the run early, if any; its state is then saved, and the run can be resumed.

    Raises:
        UsageError: `run` exists and `resume` is not set, or a setting does not fit or has changed.
        DataError: The run was started with other data, or monolingual text cannot be used.
        ModelError: A directory is damaged.
        LockedError: Another process is training in `run`.
        DivergedError: Three updates in a row, or a weight, are not finite.
        ResourceError: There is not enough memory, or a process of the run was lost.
    """
    for phase in phases(Path(run), Path(data), config, resume=resume, device=device, say=say):
        if received := train_phase(phase, device=device, report=report, say=say):
            return received
    return None


def train_phase(
    phase: Phase,
    *,
    device: torch.device | str = "cpu",
    report: Report = lambda event: None,
    say: Callable[[str], None] = lambda line: None,
) -> signal.Signals | None:
    """Train the model of one phase; see `train`."""
    run, data, config, resume = phase
    directory, prepared = RunDirectory(run), PreparedData(data)
    device = usable_device(device_of_process(torch.device(device)))
    with joined_processes(device) as processes, contextlib.ExitStack() as stack:

        def begin() -> str:
            """Set up the run in the first process, the only one that accesses the run directory."""
            require_run(directory, resume or (num_restarts() > 0 and directory.is_of_launcher()))
            stack.enter_context(directory.locked())
            require_state(directory)
            given = _decided(config, directory, prepared, device, processes.size, say)
            return run_config(directory, given, prepared, device, processes.size).model_dump_json()

        complete = RunConfig.model_validate_json(processes.told_by_first(begin))
        watch = WarmUpWatch(directory.path, complete.training, say)

        def see_and_report(event: Event) -> None:
            watch.see(event)
            report(event)

        def train_and_forget() -> signal.Signals | None:
            """Train; nothing refers to the trainer any more when the process group ends."""
            trainer = _trainer(complete, prepared, directory, device, processes, see_and_report, say)
            return _train(trainer, watch) if processes.is_first else trainer.train()

        return train_and_forget()


def _decided(
    config: RunConfig | Budget | None,
    directory: RunDirectory,
    prepared: PreparedData,
    device: torch.device,
    num_processes: int,
    say: Callable[[str], None],
) -> RunConfig | None:
    """The given configuration, or the choice of a budget for a new run; an old run keeps its own."""
    if not isinstance(config, Budget):
        return config
    if directory.config.is_file():
        return None
    return config.config(prepared, device, num_processes, lambda line: say(f"{directory.path}: {line}"))


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
    pairs = training_pairs(prepared, config)
    processes.gather()  # the data to replay may have been far away
    validation = LOSS_ALONE
    if prepared.valid is not None:
        validation = prepared.task.validation(*prepared.held_out(), prepared.units, config)
    trainer = Trainer(
        config,
        Corpus(pairs.store, prepared.valid, prepared.tokenizers, pairs.facts),
        directory,
        device,
        processes=processes,
        validation=validation,
        report=report,
        is_resumed=bool(steps) or config.training.init_from is not None,
    )

    def load() -> None:
        """Restore the trainer, tell how validations are scored, and forget a best one scored otherwise."""
        _load(trainer, prepared, steps, say)
        name, run = validation.best_by, directory.path
        if validation.reason:
            say(f"{run}: the {name} of validations is {validation.convention}: {validation.reason}")
        if trainer.best.convention != validation.convention:
            if trainer.best.step:
                say(f"{run}: {name} is computed otherwise than before, so the best validation is sought anew")
            trainer.best = Best(convention=validation.convention)

    processes.first_alone(load)
    return trainer


def _load(trainer: Trainer, prepared: PreparedData, steps: list[int], say: Callable[[str], None]) -> None:
    """Restore the run's latest state, or load the model that it continues, and record its configuration."""
    training = trainer.config.training
    if not steps or steps[-1] < training.num_steps:
        trainer.run.require_space(save_bytes(trainer.model, training))
    if steps:
        _resume(trainer, steps, say)
    elif training.init_from is not None:
        model = InitialModel.read(training.init_from)
        model.require_like(trainer.config, prepared)
        state = model.state if training.init_moments else None
        load_initial_weights(trainer.model, trainer.optimizer, load_checkpoint(model.directory), state)
        say(f"{trainer.run.path}: starts with the weights of {model.path}")
    if not steps and training.sharded and trainer.processes.size == 1:
        say(f"{trainer.run.path}: training.sharded has no effect with one process")
    write_text(trainer.run.config, trainer.config.to_toml())


def average(
    run: Path | str, out: Path | str, last: int | None = None, say: Callable[[str], None] = lambda line: None
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


def require_state(directory: RunDirectory) -> None:
    """Reject a run that has saved states and has lost all of them; it would begin again."""
    steps = directory.checkpoint_steps()
    if steps and directory.marked("latest") is not None and not directory.resumable_steps():
        raise ModelError(
            f"{directory.path}: its checkpoints have no state to resume from; copy the folder state back, or "
            "continue a checkpoint in a new run with init_from",
            settings=["init_from"],
        )


def _resume(trainer: Trainer, steps: list[int], say: Callable[[str], None]) -> None:
    """Load the newest intact state among `steps`; raises ModelError if all are damaged."""
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


def _train(trainer: Trainer, watch: WarmUpWatch) -> signal.Signals | None:
    """Train, and record in `exit.json` how the run ended."""
    trainer.run.forget_exit()
    try:
        received = trainer.train()
    except UserError as error:
        with contextlib.suppress(DiskError):  # the original error matters more than the record of it
            trainer.run.write_exit(error.exit_code, trainer.step, error.messages[0])
        raise
    except Exception as error:
        if is_out_of_memory(error):
            with contextlib.suppress(DiskError):
                trainer.run.write_exit(ResourceError.exit_code, trainer.step, "out of memory")
        raise
    code, reason, training = 0, "finished", trainer.config.training
    if received is not None:
        code, reason = 128 + received, received.name
    elif trainer.step < training.num_steps:  # another process may have counted the seconds
        reason = "out of patience" if trainer.best.is_out_of(training.patience) else "out of budget"
    trainer.run.write_exit(code, trainer.step, reason)
    if received is None:
        watch.end(trainer.step)
    return received
