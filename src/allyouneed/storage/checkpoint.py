"""Models on disk: safetensors, TOML and JSON, published atomically; no pickle."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from allyouneed.config.run import RunConfig
from allyouneed.errors import ModelError, UsageError, UserError
from allyouneed.storage.publish import publish_directory, read_manifest, read_published
from allyouneed.storage.rounded_weights import MappedWeights, map_weights, read_weights, rounded
from allyouneed.storage.run_directory import resolve_model

if TYPE_CHECKING:
    from torch import Tensor

    Weights = Mapping[str, Tensor | NDArray[Any]]

WEIGHTS = "model.safetensors"
CONFIG = "config.toml"

Attachments = Mapping[str, bytes]
"""File name -> content. These are the tokenisers, which a checkpoint carries but does not interpret."""


@dataclass(frozen=True)
class Checkpoint:
    """The content of a model directory."""

    directory: Path
    config: RunConfig
    arrays: MappedWeights
    """The weights, mapped from their file."""
    attachments: Attachments
    manifest: dict[str, Any]

    @property
    def weights_path(self) -> Path:
        """Path of the file that the weights were read from."""
        return self.directory / WEIGHTS

    @cached_property
    def weights(self) -> "dict[str, Tensor]":
        """The weights as tensors in memory of their own."""
        return read_weights(self.weights_path)


def save_checkpoint(
    directory: Path,
    config: RunConfig,
    weights: "Weights",
    attachments: Attachments,
    facts: Mapping[str, Any],
    *,
    replace: bool = False,
) -> None:
    """Publish a model directory, with `facts` as more keys of the manifest; `replace` an existing model."""
    with publish_directory(directory, "model", facts, replace=replace) as aside:
        write_checkpoint(aside, config, weights, attachments)


def write_checkpoint(
    directory: Path, config: RunConfig, weights: "Weights", attachments: Attachments
) -> None:
    """Write the files of a model into a directory that will be published."""
    arrays = {name: np.asarray(values, order="C") for name, values in weights.items()}
    save_file(arrays, directory / WEIGHTS)
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
    return Checkpoint(directory, config, map_weights(directory / WEIGHTS), carried, manifest)


def store_rounded(source: Path, out: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Publish a copy of a model with its matrices in 8 bits, which takes a quarter of the size.

    Args:
        source: A model directory, a checkpoint, or a run.
        out: The model directory to make; it must not exist, or be empty.
        say: Receives a message if leftovers of a killed process at `out` are removed.

    Raises:
        UsageError: `out` is not free, or the model's matrices are in 8 bits already.
        ModelError: The model is missing or damaged.
        LockedError: Another process is making `out`.
    """
    facts: dict[str, Any] = {}
    with publish_directory(out, "model", facts, say=say) as aside:
        model = load_checkpoint(resolve_model(source))
        if model.arrays.rounded:
            raise UsageError(f"{source}: has its matrices in int8 already; copy it as it is")
        sha256 = model.manifest["files"][WEIGHTS]["sha256"]
        facts["parents"] = [{"checkpoint": model.directory.name, "sha256": sha256}]
        write_checkpoint(aside, model.config, rounded(model.arrays, model.weights_path), model.attachments)
