"""Rehearsal of a run: checks and counts everything that `train` would do, and times some updates."""

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Indices, PlannedBatch, padding_share
from allyouneed.data.store import PairStore
from allyouneed.explorer.text_tables import figure, megabytes
from allyouneed.hardware.machine import matmul_peak
from allyouneed.hardware.memory import memory_bytes
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.pace import about, timed_updates, updates_of
from allyouneed.runs.run_configuration import completed, run_config, training_pairs
from allyouneed.runs.starting import require_state
from allyouneed.storage.run_directory import KEPT_STATES, RunDirectory, require_run
from allyouneed.training.accumulation import Say
from allyouneed.training.flops import batch_flops
from allyouneed.training.optimizer import warm_up_remark
from allyouneed.training.trainer import Schedule, schedule_of

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data."""

    pairs: int
    source_tokens: int
    """Number of source tokens; all counts of tokens include end symbols."""
    target_tokens: int
    updates: int
    micro_batches: int
    padding_share: float
    """Padding as a share of all computed positions."""
    flops: int
    """FLOPs of the matrix products, forward and backward."""


@dataclass(frozen=True)
class Speed:
    """Speed and memory of a few updates on a throw-away model."""

    updates: int
    target_tokens_per_second: float
    peak_flops_per_second: float
    """Speed of a large matrix product on the device."""
    share_of_peak: float
    memory_bytes: int
    """Peak memory in use, including the largest micro-batch; on a CPU a longer run takes more."""


@dataclass(frozen=True)
class Disk:
    """Disk space of checkpoints and states, in bytes."""

    checkpoint_bytes: int
    state_bytes: int
    most_bytes: int
    """Maximum of the run: everything that is kept, plus one more of each before the oldest is deleted."""
    free_bytes: int
    """Free space on the run's disk, plus the space of the weights and states that the run already holds."""


@dataclass(frozen=True)
class Rehearsal:
    """The result of a rehearsal."""

    config: RunConfig
    """The complete configuration, with the data's vocabulary sizes, a precision and a micro-batch size."""
    device: torch.device
    parameters: int
    steps_done: int
    """Number of updates that are already done if a run is resumed; else 0."""
    epoch: Epoch
    speed: Speed
    disk: Disk

    @property
    def updates(self) -> int:
        """Number of updates that the run would make within `num_steps` and its budgets."""
        return min(self._updates_by_limit().values())

    @property
    def limit(self) -> str:
        """The training setting that ends the run."""
        found = self._updates_by_limit()
        return min(found, key=found.__getitem__)

    def _updates_by_limit(self) -> dict[str, int]:
        """Number of updates to come by each limit; what is done counts as if it had been at this speed."""
        training, epoch = self.config.training, self.epoch
        seconds = epoch.target_tokens / self.speed.target_tokens_per_second
        limits = {"num_steps": training.num_steps}
        for name, of_epoch in {"budget_flops": epoch.flops, "budget_seconds": seconds}.items():
            if (budget := getattr(training, name)) is not None:
                limits[name] = math.ceil(budget / of_epoch * epoch.updates)
        return {name: max(0, updates - self.steps_done) for name, updates in limits.items()}

    @property
    def epochs(self) -> float:
        """Number of epochs that the run would train for."""
        return self.updates / self.epoch.updates

    @property
    def training_flops(self) -> float:
        """FLOPs of all updates that the run would make."""
        return self.epochs * self.epoch.flops

    @property
    def training_seconds(self) -> float:
        """Time of these updates at the measured speed, without validations and checkpoints."""
        return self.epochs * self.epoch.target_tokens / self.speed.target_tokens_per_second


def rehearse(
    run: Path | str,
    data: Path | str,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    device: torch.device | str = "cpu",
    say: Say = lambda line: None,
) -> Rehearsal:
    """Check and measure what `train` would do with these arguments, without writing anything.

    `say` receives a message if memory is too small for a micro-batch.

    Raises:
        UsageError, DataError, ModelError, LockedError: See `train`.
        DiskError: There is too little disk space to start.
    """
    directory, device = RunDirectory(Path(run)), torch.device(device)
    require_run(directory, resume)
    directory.require_unlocked()
    require_state(directory)
    prepared = PreparedData(data)
    config = run_config(directory, config, prepared, device)
    store = training_pairs(prepared, config).store
    schedule = schedule_of(store, config.training)
    parameters = sum(count_parameters(config.model).values())
    disk = _disk(directory, config, parameters)
    batches = list(islice(schedule.batches_from(0), schedule.num_batches))
    lengths = np.maximum(store.source_lengths, store.target_lengths)
    micro_batches = (pairs for batch in batches for pairs in batch.micro_batches)
    longest = max(micro_batches, key=lambda pairs: lengths[pairs].max())
    steps_done = max(directory.resumable_steps(), default=0)
    epoch = _epoch(config, store, batches)
    speed = _speed(config, store, schedule, longest, device, say)
    return Rehearsal(config, device, parameters, steps_done, epoch, speed, disk)


def updates_within(flops: float, config: RunConfig, data: Path | str, device: torch.device) -> int:
    """Number of updates until a run's matrix products have used `flops`, including the last update."""
    prepared = PreparedData(data)
    config = completed(config, prepared, device)
    store = training_pairs(prepared, config).store
    batches = schedule_of(store, config.training).batches_from(0)
    costs = (batch_flops(config.model, store, batch) for batch in batches)
    return 1 + sum(1 for _ in takewhile(lambda used: used < flops, accumulate(costs)))


def _epoch(config: RunConfig, store: PairStore, batches: Sequence[PlannedBatch]) -> Epoch:
    micro_batches = [pairs for batch in batches for pairs in batch.micro_batches]
    pairs = np.concatenate(micro_batches)
    return Epoch(
        pairs=len(pairs),
        source_tokens=int(store.source_lengths[pairs].sum()) + len(pairs),
        target_tokens=int(store.target_lengths[pairs].sum()) + len(pairs),
        updates=len(batches),
        micro_batches=len(micro_batches),
        padding_share=padding_share(store.source_lengths, store.target_lengths, micro_batches),
        flops=sum(batch_flops(config.model, store, batch) for batch in batches),
    )


def _speed(
    config: RunConfig, store: PairStore, schedule: Schedule, longest: Indices, device: torch.device, say: Say
) -> Speed:
    peak = matmul_peak(device, config.training.precision)
    update, first = updates_of(config, store, device, say), next(schedule.batches_from(0))
    # The largest micro-batch takes the most memory, and several threads compute several at once.
    micro_batches = [longest] * len(first.micro_batches)
    update(PlannedBatch(first.position, micro_batches, first.num_target_tokens))
    batches, seconds = timed_updates(update, schedule)
    tokens = sum(batch.num_target_tokens for batch in batches)
    flops = sum(batch_flops(config.model, store, batch) for batch in batches)
    return Speed(len(batches), tokens / seconds, peak, flops / seconds / peak, memory_bytes(device))


def _disk(directory: RunDirectory, config: RunConfig, parameters: int) -> Disk:
    """The disk space that checkpoints and states need; raises DiskError if there is too little to start."""
    checkpoint = _FLOAT_BYTES * parameters
    state = config.training.moments_per_weight * checkpoint
    num_checkpoints = config.training.keep_checkpoints + 2  # the best; the next
    most = num_checkpoints * checkpoint + (KEPT_STATES + 1) * state
    path = directory.path
    place = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    held = sum(file.stat().st_size for file in path.rglob("*.safetensors"))
    free = shutil.disk_usage(place).free + held
    directory.require_space(checkpoint + state)
    return Disk(checkpoint, state, most, free)


def as_json(found: Rehearsal) -> dict[str, Any]:
    """One JSON object, without the configuration, which a run keeps in `config.toml`."""
    training = ("precision", "batch_tokens", "micro_batch_tokens")
    own = ("steps_done", "updates", "limit", "epochs", "training_flops", "training_seconds")
    return {
        "parameters": found.parameters,
        "device": str(found.device),
        **{name: getattr(found.config.training, name) for name in training},
        **{name: getattr(found, name) for name in own},
        **{name: asdict(getattr(found, name)) for name in ("epoch", "speed", "disk")},
    }


_figure = partial(figure, name_width=20)


def as_text(found: Rehearsal) -> Iterator[str]:
    """Lines with name, value and remark."""
    training, epoch, speed, disk = found.config.training, found.epoch, found.speed, found.disk
    yield _figure("parameters", f"{found.parameters:,}")
    yield _figure("device", str(found.device), f"in {training.precision}")
    tokens = f"{epoch.source_tokens:,} source and {epoch.target_tokens:,} target tokens"
    yield _figure("pairs", f"{epoch.pairs:,}", tokens)
    done = f", after {found.steps_done:,} that are done" if found.steps_done else ""
    limit = "" if found.limit == "num_steps" else f", by training.{found.limit}"
    epochs = f"{found.epochs:.1f} epochs of {epoch.updates:,}{done}{limit}"
    yield _figure("updates", f"{found.updates:,}", epochs)
    micro_batches = f"in {epoch.micro_batches / epoch.updates:.1f} micro-batches of at most "
    micro_batches += f"{training.micro_batch_tokens:,} tokens a side"
    yield _figure("tokens an update", f"{epoch.target_tokens / epoch.updates:,.0f}", micro_batches)
    yield _figure("padding", f"{epoch.padding_share:.1%}", "of what is computed")
    yield _figure("FLOPs", f"{found.training_flops:.2e}", "of matrix products, forward and backward")
    measured = f"target tokens/s, as measured over {speed.updates} update{'s' * (speed.updates > 1)}"
    yield _figure("speed", f"{speed.target_tokens_per_second:,.0f}", measured)
    peak = f"of the {speed.peak_flops_per_second / 1e9:,.0f} GFLOP/s of a large matrix product"
    yield _figure("  share of peak", f"{speed.share_of_peak:.0%}", peak)
    yield _figure("time", about(found.training_seconds), "at that speed, validations and checkpoints apart")
    if remark := warm_up_remark(training, found.steps_done + found.updates):
        yield _figure("warm-up", f"{training.warmup_steps:,}", remark)
    memory = "after these updates, the largest micro-batch included; on a CPU it grows for a while"
    yield _figure("memory", megabytes(speed.memory_bytes), memory)
    state = f"and {megabytes(disk.state_bytes)} to resume from it"
    yield _figure("checkpoint", megabytes(disk.checkpoint_bytes), state)
    yield _figure("disk", megabytes(disk.most_bytes), f"at most; {megabytes(disk.free_bytes)} are free")
