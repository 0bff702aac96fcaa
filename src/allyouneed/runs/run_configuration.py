"""The complete configuration of a run: the given settings, fitted to data, device, processes and past."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from allyouneed.config.presets import preset
from allyouneed.config.run import MAY_CHANGE, RunConfig, TrainingConfig
from allyouneed.data.store import PairStore
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError, UsageError
from allyouneed.hardware.devices import resolve_precision
from allyouneed.hardware.memory import require_memory, total_memory_bytes
from allyouneed.model.architectures import outline_model
from allyouneed.model.sizes import count_parameters
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.initial_model import InitialModel
from allyouneed.storage.run_directory import FIRST_MODELS, RunDirectory
from allyouneed.training.memory_estimate import chunk_elements, fitting_tokens
from allyouneed.training.optimizer import require_some_trainable
from allyouneed.training.update import can_be_packed, takes_flash


class TrainingPairs(NamedTuple):
    """Pairs, the replayed ones last."""

    store: PairStore
    facts: Mapping[str, Any]
    """Identity of the data: SHA-256 of corpora and tokenisers."""


def training_pairs(prepared: PreparedData, config: RunConfig) -> TrainingPairs:
    """The pairs that a run is trained on; raises DataError if the data to replay have other tokenisers."""
    pairs = _with_replayed(prepared, config.training)
    if config.model.guided_alignment and prepared.task.ids_per_word(prepared.config) is None:
        return pairs._replace(store=pairs.store.guided_by(prepared.guide))
    return pairs


def _with_replayed(prepared: PreparedData, training: TrainingConfig) -> TrainingPairs:
    if training.replay is None:
        return TrainingPairs(prepared.train, prepared.facts)
    other = PreparedData(training.replay)
    if other.units != prepared.units:
        raise DataError(
            f"{other.directory}: has other tokenisers than {prepared.directory}, and cannot be replayed; "
            "prepare both with tokenizer_from one model",
            settings=["tokenizer_from"],
        )
    return TrainingPairs(
        prepared.train.with_replayed(other.train), prepared.facts | {"replayed": other.facts}
    )


_CHOSEN_AT_THE_START = {
    *("precision", "micro_batch_tokens", "packed_tokens", "init_from", "init_sha256", "block_pairs"),
    *("planned_seconds", "moved_end"),
}
"""Training settings whose default leaves them as they were chosen when the run started."""


def run_config(
    directory: RunDirectory,
    given: RunConfig | None,
    prepared: PreparedData,
    device: torch.device,
    num_processes: int = 1,
) -> RunConfig:
    """The complete configuration: `given`, or else the run's own, fitted to data, device and processes."""
    recorded = RunConfig.from_toml(directory.config) if directory.config.is_file() else None
    recorded, given = (each and _with_own_pairs(each, directory) for each in (recorded, given))
    if recorded is None:
        config = completed(given or preset(prepared.task.default_preset), prepared, device, num_processes)
        if config.training.init_from is None:
            return config
        model = InitialModel.read(config.training.init_from)
        model.require_like(config, prepared)
        return config.replace(training={"init_sha256": model.weights_sha256})
    _require_same_start(directory.path, recorded, given or recorded, prepared)
    if given is None:
        return recorded
    # Values that were chosen at the start stay, unless set explicitly.
    training, unset = given.training, TrainingConfig()
    kept = {
        name: getattr(recorded.training, name)
        for name in _CHOSEN_AT_THE_START
        if getattr(training, name) == getattr(unset, name)
    }
    config = completed(given.replace(training=kept), prepared, device)
    if training.packed_tokens is None:  # a run that began on another device has none, and keeps none
        config = config.replace(training={"packed_tokens": recorded.training.packed_tokens})
    _require_same(directory.path, recorded, config)
    return config


def _with_own_pairs(config: RunConfig, directory: RunDirectory) -> RunConfig:
    """A configuration whose pairs to replay, if a run made them itself, are where the run is now."""
    own, replay = directory.path / FIRST_MODELS / "data", config.training.replay
    is_gone = replay is not None and not Path(replay).exists()
    return config.replace(training={"replay": str(own)}) if is_gone and own.exists() else config


def completed(
    config: RunConfig, prepared: PreparedData, device: torch.device, num_processes: int = 1
) -> RunConfig:
    """`config` with the data's vocabulary sizes, a precision and a micro-batch size.

    Raises:
        UsageError: A setting does not fit the data or the architecture.
        ResourceError: The model does not fit into memory.
    """
    training = config.training
    store = _with_replayed(prepared, training).store
    longest = longest_sentence(prepared, store)
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
    of_task = prepared.task.model_settings(longest - 1, config.model) if training.init_from is None else {}
    model: dict[str, Any] = {
        **of_task,
        "source_vocab_size": prepared.source_vocab_size,
        "target_vocab_size": prepared.target_vocab_size,
    }
    if config.model.guided_alignment:
        ids_per_word = prepared.task.ids_per_word(prepared.config)
        if ids_per_word is None and not prepared.task.reads_pairs:
            raise UsageError(
                "model.guided_alignment: wants as many ids for every word on both sides; prepare trees with "
                "tokenizer words and brackets joined, or set it to 0",
                settings=["tokenizer", "brackets"],
            )
        model["ids_per_word"] = ids_per_word or 1
    if config.model.tied_embeddings == "all" and not _may_tie_all(config, prepared):
        model["tied_embeddings"] = "target"
    complete = config.replace(
        model=model,
        data=prepared.config.model_dump(),
        training={"precision": resolve_precision(training.precision, device)},
    )
    tokens = tokens_at_once(complete, store, longest, device, num_processes)
    complete = complete.replace(training=tokens)
    is_here = not training.sharded and device.type == "cpu"
    kept_here = 2 + training.moments_per_weight if is_here else 1  # weights; gradients, moments
    require_memory(kept_here * 4 * sum(count_parameters(complete.model).values()))
    if training.frozen:
        require_some_trainable(outline_model(complete.model), training.frozen)
    return complete


def longest_sentence(prepared: PreparedData, pairs: PairStore) -> int:
    """Number of tokens of the longest sentence of a run on these pairs, with the end symbol."""
    stores = [pairs, *([] if prepared.valid is None else [prepared.valid])]
    return 1 + max(int(max(store.source_lengths.max(), store.target_lengths.max())) for store in stores)


def tokens_at_once(
    config: RunConfig, store: PairStore, longest: int, device: torch.device, num_processes: int
) -> dict[str, int | None]:
    """The sizes of micro-batches, and of what is computed of them at once, as far as they are not given.

    On an accelerator its memory limits them; the plan of batches is that of any device, if they fit.
    """
    training, packed = config.training, config.training.packed_tokens
    micro_batch = training.resolved_micro_batch_tokens(longest, num_processes)
    if packed and not can_be_packed(outline_model(config.model)):
        raise UsageError("training.packed_tokens: this model needs padded sentences; leave it out")
    if device.type != "cpu" and not training.sharded:
        length = 1 + round(float(np.maximum(store.source_lengths, store.target_lengths).mean()))
        limits = length, chunk_elements(device.type), total_memory_bytes(device)
        if training.micro_batch_tokens is None:
            micro_batch = max(longest, fitting_tokens(config, micro_batch, *limits))
        if packed is None and takes_flash(outline_model(config.model), training.precision, device):
            packed = fitting_tokens(config, training.batch_tokens, *limits)
    return {"micro_batch_tokens": micro_batch, "packed_tokens": packed}


def _may_tie_all(config: RunConfig, prepared: PreparedData) -> bool:
    """Whether source and target may share a matrix.

    They may if their vocabulary was learned as one. So they may in a run that continues a model whose sides
    have the same entries: models of OPUS-MT have one vocabulary, but split each language in its own way.
    """
    source, target = prepared.units
    return prepared.config.joint_vocabulary or (
        config.training.init_from is not None
        and isinstance(source, Tokenizer)
        and isinstance(target, Tokenizer)
        and [*source.names] == [*target.names]
    )


def _require_same_start(run: Path, recorded: RunConfig, given: RunConfig, prepared: PreparedData) -> None:
    """Refuse other vocabularies or another model than the run has begun with; it may be in another place."""
    began = recorded.model.vocab_sizes
    if began != (prepared.source_vocab_size, prepared.target_vocab_size):
        raise DataError(
            f"{run}: began with vocabularies of {began[0]} and {began[1]}, {prepared.directory} has "
            f"{prepared.source_vocab_size} and {prepared.target_vocab_size}; "
            "name the data it began with, or train a new run"
        )
    path = given.training.init_from
    if path in (None, recorded.training.init_from):  # and need not be there any more
        return
    if InitialModel.read(path).weights_sha256 != recorded.training.init_sha256:
        raise UsageError(
            f"{run}: did not begin with the weights of {path}; leave out init_from to go on, or train a new "
            "run",
            settings=["init_from"],
        )


def _require_same(run: Path, recorded: RunConfig, given: RunConfig) -> None:
    old, new = recorded.model_dump(), given.model_dump()
    # Before its end, no other schedule depends on it.
    may_change = MAY_CHANGE - ({"num_steps"} if recorded.training.schedule == "linear_decay" else set())
    changed = [
        f"{run}: began with {group}.{name} = {old[group][name]}, now {value} is given; "
        "leave it out to go on, or train a new run"
        for group in ("model", "training")
        for name, value in new[group].items()
        if value != old[group][name] and name not in may_change
    ]
    if changed:
        raise UsageError(changed)
