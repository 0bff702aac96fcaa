"""Training on an accelerator, as `train` does it: whether it is right, how fast, and where time goes.

`benchmarks/accelerator.py` runs it. Every run has the settings that `train` would choose for the device: the
precision, the micro-batches, what is computed at once, and whether it is compiled. Data are random ids, with
lengths like those of WMT and of Multi30k.
"""

import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.accelerator_profile import where_time_goes

from allyouneed.config.presets import preset
from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.store import PairStore, PairWriter, Sentences, places_of
from allyouneed.errors import UsageError
from allyouneed.hardware.devices import resolve_precision
from allyouneed.hardware.machine import measured_peak, wait_for
from allyouneed.hardware.memory import empty_cache, forget_peak_memory, memory_bytes
from allyouneed.lab.bench.training_workloads import Lengths, log_normal_lengths, multi30k_lengths
from allyouneed.runs.run_configuration import tokens_at_once
from allyouneed.symbols import UNKNOWN
from allyouneed.training.distributed import Processes
from allyouneed.training.flops import batch_flops
from allyouneed.training.learner import Learner
from allyouneed.training.memory_estimate import chunk_elements, training_memory
from allyouneed.training.trainer import schedule_of

SECONDS = 200.0
"""No run begins later, so that there is time for decoding, too; what is left out is named.

The last run is not stopped: it takes the time of compiling its two or three sizes, and of 75 updates.
"""
UPDATES, PROFILED_UPDATES, CURVE_UPDATES = 24, 3, 300
LENGTHS: Mapping[str, Callable[[], Lengths]] = {
    "like WMT's": functools.partial(log_normal_lengths, (27.0, 27.5), (15.0, 15.5), 0.9),
    "like Multi30k's": multi30k_lengths,
}
"""Pairs of lengths by their description; those of WMT are about 28 tokens on average, and vary widely."""
RUNS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "base": ("base", "like WMT's", {}),
    "base, not compiled": ("base", "like WMT's", {"compiled": "off"}),
    "base, like Multi30k": ("base", "like Multi30k's", {}),
    "base, float32": ("base", "like WMT's", {"precision": "float32"}),
    "base, tf32": ("base", "like WMT's", {"precision": "tf32"}),
    "big": ("big", "like WMT's", {}),
}
"""Name -> preset, lengths and settings; in the order of what they tell."""
_TINY: dict[str, Any] = {
    "model": {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "dropout": 0.1},
    "training": {"batch_tokens": 2_000},
}
_TINY_VOCABULARY, _VOCABULARY = 100, 37_000
_SMALL: dict[str, Any] = {"d_model": 128, "d_ff": 256, "num_layers": 2, "num_heads": 4, "dropout": 0.0}
"""The model of the checks."""
_SMALL_VOCABULARY = 500
_PAIRS, _TINY_PAIRS = 40_000, 1_000


def measure(device: torch.device, _: Path, tiny: bool) -> Iterator[tuple[str, Any]]:
    """Yield results with their names as they come, those of correctness first."""
    began = time.monotonic()
    stores = Stores(_TINY_PAIRS if tiny else _PAIRS)
    try:
        yield "training: checks", checks(device, stores, 6 if tiny else CURVE_UPDATES)
        for name, (of_preset, lengths, settings) in RUNS.items():
            if time.monotonic() - began > SECONDS:
                yield f"training: {name}", {"not measured": "out of time"}
                continue
            config = preset(of_preset).replace(training=settings)
            config = config.replace(**_TINY) if tiny else config
            if tiny and name == "base":  # what an accelerator takes by itself, tried here as well
                config = config.replace(training={"compiled": "on", "packed_tokens": 2_000})
            vocab_size = _TINY_VOCABULARY if tiny else _VOCABULARY
            store = stores.store(lengths, vocab_size)
            try:
                learner, complete, said = build_learner(config, store, vocab_size, device)
            except UsageError as error:
                yield f"training: {name}", {"not measured": error.messages[0]}
                continue
            batches = list(
                islice(schedule_of(store, complete.training).batches_from(0), 3 if tiny else UPDATES)
            )
            yield f"training: {name}", speed(learner, complete, store, batches, device) | {"notices": said}
            profiled = functools.partial(_updates, learner, batches[:PROFILED_UPDATES])
            yield f"training profile: {name}", where_time_goes(profiled, device)
            del learner, profiled
            empty_cache(device)
    finally:
        stores.remove()


class Stores:
    """Stores of random pairs in a temporary folder, written when they are first asked for."""

    def __init__(self, num_pairs: int) -> None:
        self._folder, self._num_pairs = Path(tempfile.mkdtemp()), num_pairs

    def store(self, lengths: str, vocab_size: int) -> PairStore:
        """Pairs with lengths as described, of ids below `vocab_size`."""
        place = self._folder / f"{list(LENGTHS).index(lengths)}-{vocab_size}"
        if not place.exists():
            drawn: Lengths = LENGTHS[lengths]()[: self._num_pairs]
            source, target = _sentences(drawn, vocab_size)
            with PairWriter(place, vocabulary_size=vocab_size) as writer:
                writer.add(source, target, range(1, len(drawn) + 1))
        return PairStore(place)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self._folder)


def _sentences(lengths: Lengths, vocab_size: int) -> tuple[Sentences, Sentences]:
    """Random sources, and targets that can be learned: their own source, again and again or in part."""
    of_source, of_target = lengths.T
    ids = np.random.default_rng(1).integers(UNKNOWN + 1, vocab_size, int(of_source.sum()))
    begins = of_source.cumsum() - of_source
    copied = places_of(np.zeros_like(begins), of_target) % np.repeat(of_source, of_target)
    return Sentences(ids, of_source), Sentences(ids[np.repeat(begins, of_target) + copied], of_target)


def build_learner(
    config: RunConfig, store: PairStore, vocab_size: int, device: torch.device
) -> tuple[Learner, RunConfig, list[str]]:
    """A model in training with the settings that `train` chooses, these, and a list of what it will say.

    Raises:
        UsageError: The device lacks what a setting asks for.
    """
    longest = 1 + int(max(store.source_lengths.max(), store.target_lengths.max()))
    precision = resolve_precision(config.training.precision, device)
    config = config.replace(
        model={"source_vocab_size": vocab_size, "target_vocab_size": vocab_size},
        training={"precision": precision},
    )
    config = config.replace(training=tokens_at_once(config, store, longest, device, 1))
    said: list[str] = []
    forget_peak_memory(device)
    return Learner(config, store, device, Processes(), said.append), config, said


def speed(
    learner: Learner,
    config: RunConfig,
    store: PairStore,
    batches: list[PlannedBatch],
    device: torch.device,
) -> dict[str, Any]:
    """Speed of updates on the same batches after a first pass, which compiles."""
    seconds: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        _updates(learner, batches)
        told = time.perf_counter() - began
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    tokens, best = sum(batch.num_target_tokens for batch in batches), min(seconds[1:])
    rate = sum(batch_flops(config.model, store, batch) for batch in batches) / best
    training = config.training
    at_once = max(training.packed_tokens or 0, training.micro_batch_tokens or 0)
    length = 1 + round(float(np.maximum(store.source_lengths, store.target_lengths).mean()))
    predicted = training_memory(config, at_once, length, chunk_elements(device.type))
    return {
        **{name: getattr(training, name) for name in ("precision", "micro_batch_tokens", "packed_tokens")},
        "target_tokens_per_second": tokens / best,
        "milliseconds_per_update": 1e3 * best / len(batches),
        "milliseconds_of_the_host": 1e3 * told / len(batches),
        "seconds_of_the_first_pass": seconds[0],
        "teraflops_per_second": rate / 1e12,
        "share_of_peak": rate / measured_peak(device, training.precision),
        "memory_bytes": memory_bytes(device),
        "memory_predicted_bytes": predicted.peak_estimate,
        "loss": float(learner.loss) / batches[-1].num_target_tokens,
        "skipped": learner.skipped,
    }


def _updates(learner: Learner, batches: list[PlannedBatch]) -> None:
    for step, batch in enumerate(batches, start=1):
        learner.update(batch, step, lambda: 0)


def checks(device: torch.device, stores: Stores, num_updates: int) -> dict[str, Any]:
    """Losses of the same updates in float32 and as `train` computes them, and whether bits come again."""
    store = stores.store("like Multi30k's", _SMALL_VOCABULARY)
    small = preset("base").replace(model=_SMALL, training={"batch_tokens": 2_000, "warmup_steps": 100})
    variants: dict[str, dict[str, Any]] = {
        "float32": {"precision": "float32"},
        "as chosen": {},
        "as chosen, again": {},
        "not compiled": {"compiled": "off"},
        "with dropout": {},
    }
    curves, weights, notices = {}, {}, {}
    for name, settings in variants.items():
        config = small.replace(training=settings, model={"dropout": 0.1 * (name == "with dropout")})
        learner, complete, notices[name] = build_learner(config, store, _SMALL_VOCABULARY, device)
        curves[name] = _curve(learner, complete, store, num_updates)
        weights[name] = torch.cat([p.detach().flatten() for p in learner.model.parameters()]).cpu()
    last = {name: float(np.mean(curve[-max(1, num_updates // 10) :])) for name, curve in curves.items()}
    return {
        "mean loss of the last tenth": last,
        "first losses": {name: curve[:3] for name, curve in curves.items()},
        "within 1% of float32": bool(abs(last["as chosen"] / last["float32"] - 1) < 0.01),
        "the same bits again": bool(torch.equal(weights["as chosen"], weights["as chosen, again"])),
        "notices": notices,
    }


def _curve(learner: Learner, config: RunConfig, store: PairStore, num_updates: int) -> list[float]:
    """The losses of a run's first updates, in nats per target token."""
    losses, tokens = [], []
    for step, batch in enumerate(
        islice(schedule_of(store, config.training).batches_from(0), num_updates), start=1
    ):
        learner.update(batch, step, lambda: 0)
        losses.append(learner.loss.clone())
        tokens.append(batch.num_target_tokens)
    return (torch.stack(losses).cpu() / torch.tensor(tokens)).tolist()
