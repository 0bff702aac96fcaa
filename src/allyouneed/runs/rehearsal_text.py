"""Results of a rehearsal, as text and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from allyouneed.errors import counted, duration
from allyouneed.explorer.text_tables import figure, megabytes
from allyouneed.training.warm_up import warm_up_remark

if TYPE_CHECKING:
    from allyouneed.runs.rehearsing import Rehearsal

_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60}
_LONG_SECONDS = 1e10


def as_json(found: "Rehearsal") -> dict[str, Any]:
    """One JSON object, without the configuration, which a run keeps in `config.toml`."""
    training = found.config.training
    return {
        "parameters": found.parameters,
        "device": str(found.device),
        "precision": training.precision,
        "batch_tokens": training.batch_tokens,
        "micro_batch_tokens": training.micro_batch_tokens,
        "steps_done": found.steps_done,
        "updates": found.updates,
        "limit": found.limit,
        "epochs": found.epochs,
        "training_flops": found.training_flops,
        "training_seconds": found.training_seconds,
        "epoch": asdict(found.epoch),
        "speed": asdict(found.speed),
        "disk": asdict(found.disk),
    }


def about(seconds: float) -> str:
    """An estimated time in two digits, such as `about 6.5 hours`."""
    if seconds >= _LONG_SECONDS:
        return duration(seconds)
    unit, size = next((pair for pair in _UNITS.items() if seconds >= 1.5 * pair[1]), ("seconds", 1))
    return f"about {counted(float(f'{seconds / size:.2g}'), unit=unit)}"


_figure = partial(figure, name_width=20)


def as_text(found: "Rehearsal") -> Iterator[str]:
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
