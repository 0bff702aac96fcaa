"""The average of a run's last checkpoints (paper 6.1)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError, UsageError, counted
from allyouneed.model.weights import Weights, model_from_weights
from allyouneed.storage.checkpoint import CONFIG, WEIGHTS, Checkpoint, load_checkpoint, write_checkpoint
from allyouneed.storage.publish import publish_directory, require_regular
from allyouneed.storage.run_directory import RunDirectory


def last_checkpoints(run: Path, last: int | None = None) -> list[Path]:
    """The newest scheduled checkpoints of a run, by default `training.average_last`, or all if fewer.

    Raises:
        ModelError: The run has no checkpoints.
        UsageError: `last` is not positive, or larger than the number of scheduled checkpoints.
    """
    directory = RunDirectory(run)
    if not directory.checkpoint_steps():
        raise ModelError(f"{run}: has no checkpoints; train it first")
    require_regular(directory.config)
    training = RunConfig.from_toml(directory.config).training
    steps = directory.scheduled_steps(training.checkpoint_every_steps)
    if last is None:
        last = min(len(steps), training.average_last)
    if not 1 <= last <= len(steps):
        raise UsageError(
            f"last {last}: {run} has {counted(len(steps), unit='checkpoints')}; ask for 1 to {len(steps)}",
            settings=["last"],
        )
    return [directory.checkpoint(step) for step in steps[-last:]]


def average(directories: Sequence[Path], out: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Average the weights of checkpoints and publish the model as `out`, which must be new or empty.

    Its settings are those of the last checkpoint.

    Raises:
        UsageError: `directories` is empty or has duplicates, or `out` is not free.
        ModelError: A checkpoint is damaged, or the checkpoints differ in architecture or tokenisers.
        LockedError: Another process is creating `out`.
    """
    if not directories or len({path.resolve() for path in directories}) < len(directories):
        raise UsageError("averaging wants one or more checkpoints, each once")
    facts: dict[str, Any] = {}
    with publish_directory(out, "model", facts, say=say) as aside:
        first = load_checkpoint(directories[0])
        weights, facts["parents"] = _mean(first, directories)
        config = RunConfig.from_toml(directories[-1] / CONFIG)
        write_checkpoint(aside, config, weights, first.attachments)


def _mean(first: Checkpoint, directories: Sequence[Path]) -> tuple[Weights, list[dict[str, Any]]]:
    """The mean of all weights, and the name and hash of each parent."""
    sums = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in first.weights.items()}
    parents = []
    for directory in directories:
        checkpoint = load_checkpoint(directory)
        # This rejects missing, foreign and non-finite weights by name.
        model_from_weights(checkpoint.config.model, checkpoint.weights, checkpoint.weights_path)
        if (checkpoint.config.model, checkpoint.attachments) != (first.config.model, first.attachments):
            raise ModelError(
                f"{directory}: has another architecture or vocabulary than {first.directory}; "
                "average checkpoints of one run"
            )
        for name, total in sums.items():
            total.add_(checkpoint.weights[name])
        parents.append(
            {"checkpoint": directory.name, "sha256": checkpoint.manifest["files"][WEIGHTS]["sha256"]}
        )
    weights = {name: (total / len(directories)).float() for name, total in sums.items()}
    return weights, parents
