"""Models and training states on disk: safetensors, TOML and JSON, published atomically; no pickle."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file
from torch import Tensor

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError, UserError
from allyouneed.storage.publish import (
    MAX_WEIGHT_BYTES,
    open_regular,
    publish_directory,
    read_manifest,
    read_published,
)

WEIGHTS = "model.safetensors"
CONFIG = "config.toml"
_MOMENTS = "state.safetensors"
_PROGRESS = "state.json"
_MAX_HEADER_BYTES = 100_000_000
"""The limit of safetensors itself."""

Weights = dict[str, Tensor]
Attachments = Mapping[str, bytes]
"""File name -> content. These are the tokenisers, which a checkpoint carries but does not interpret."""


@dataclass(frozen=True)
class Checkpoint:
    """The content of a model directory, in memory."""

    directory: Path
    config: RunConfig
    weights: Weights
    attachments: Attachments
    manifest: dict[str, Any]

    @property
    def weights_path(self) -> Path:
        """Path of the file that the weights were read from."""
        return self.directory / WEIGHTS


def save_checkpoint(
    directory: Path,
    config: RunConfig,
    weights: Weights,
    attachments: Attachments,
    facts: Mapping[str, Any],
    *,
    replace: bool = False,
) -> None:
    """Publish a model directory, with `facts` as more keys of the manifest; `replace` an existing model."""
    with publish_directory(directory, "model", facts, replace=replace) as aside:
        write_checkpoint(aside, config, weights, attachments)


def write_checkpoint(directory: Path, config: RunConfig, weights: Weights, attachments: Attachments) -> None:
    """Write the files of a model into a directory that will be published."""
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, directory / WEIGHTS)
    (directory / CONFIG).write_bytes(config.to_toml().encode())
    for name, content in attachments.items():
        (directory / name).write_bytes(content)


def load_checkpoint(directory: Path, attachments: Iterable[str] = ()) -> Checkpoint:
    """Read a model directory, every byte checked against its manifest; raises ModelError if damaged.

    `attachments` are files that it must have besides weights and configuration.
    """
    manifest = read_manifest(directory, "model", (WEIGHTS, CONFIG, *attachments))
    names = sorted(set(manifest["files"]) - {WEIGHTS, CONFIG})
    try:
        config = RunConfig.from_toml(directory / CONFIG)
    except UserError as error:
        raise ModelError(error.messages) from None
    carried = {name: read_published(directory / name) for name in names}
    return Checkpoint(directory, config, read_tensors(directory / WEIGHTS), carried, manifest)


def save_training_state(
    directory: Path, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
) -> None:
    """Publish, or replace, the state for resuming: the optimizer's moments, and `progress` as JSON."""
    moments = {
        f"{index}.{key}": value
        for index, entries in optimizer.state_dict()["state"].items()
        for key, value in entries.items()
    }
    with publish_directory(directory, "state", replace=True) as aside:
        save_file(moments, aside / _MOMENTS)
        (aside / _PROGRESS).write_bytes(json.dumps(progress).encode())


def load_training_state(directory: Path, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Load saved moments into `optimizer`, which has tensors for them; return the progress saved with them.

    Raises:
        ModelError: The directory is damaged or belongs to another model.
    """
    read_manifest(directory, "state", (_MOMENTS, _PROGRESS))
    try:
        progress = json.loads((directory / _PROGRESS).read_bytes())  # may hold minus infinity
    except (ValueError, RecursionError):
        progress = None
    if not isinstance(progress, dict):
        raise ModelError(f"{directory / _PROGRESS}: is not a JSON object; take another copy of {directory}")
    moments = read_tensors(directory / _MOMENTS)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for index, parameter in enumerate(parameters):
        shapes = {key: tensor.shape for key, tensor in optimizer.state[parameter].items()}
        of_parameter = {key: moments.pop(f"{index}.{key}") for key in shapes if f"{index}.{key}" in moments}
        if of_parameter and {key: tensor.shape for key, tensor in of_parameter.items()} != shapes:
            fault = f"has the wrong moments for parameter {index}; take another copy"
            raise ModelError(f"{directory / _MOMENTS}: {fault}")
        if of_parameter:
            state[index] = of_parameter
    if moments:
        fault = f"has a tensor {min(moments)} that is not a moment of this model; take another copy"
        raise ModelError(f"{directory / _MOMENTS}: {fault}")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return progress


def read_tensors(path: Path) -> Weights:
    """Read a file of safetensors; raises ModelError if it is missing, irregular, too large, or damaged."""
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file:
            _require_size(file)
            content = file.read()
        return load_tensors(content)  # its errors are no errors of the disk
    except UserError:
        raise
    except Exception as error:  # safetensors raises its own type, ValueError, KeyError or MemoryError
        raise ModelError(
            f"{path}: is not a valid tensor file: {error}; take another copy of {path.parent}"
        ) from None


def _require_size(file: BinaryIO) -> None:
    """Refuse a file that has another size than its header says, before all of it is read."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_MAX_HEADER_BYTES, size - 8):
        raise ValueError(f"its header has {length:,} bytes")
    header = json.loads(file.read(length))
    ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
    if max(ends, default=0) != size - 8 - length:
        raise ValueError(f"it has {size:,} bytes, other than its header says")
    file.seek(0)
