"""The state of training on disk: what resuming needs besides the checkpoint."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.storage.publish import publish_directory, read_manifest
from allyouneed.storage.tensor_files import read_tensors

_MOMENTS = "state.safetensors"
_PROGRESS = "state.json"


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
