"""Saving and loading of a run, and its start from the weights of another model."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.errors import DivergedError, ModelError
from allyouneed.model.architectures import build_model
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.initialisation import initialise
from allyouneed.model.weights import load_weights
from allyouneed.storage.checkpoint import Attachments, Checkpoint, load_checkpoint, save_checkpoint
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.storage.training_state import load_training_state, save_training_state
from allyouneed.training.optimizer import build_optimizer, freeze

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class _Best(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    value: float
    step: _Count
    since: _Count
    convention: str = ""


class _Progress(BaseModel):
    """Schema of the saved progress."""

    model_config = ConfigDict(strict=True)

    step: _Count
    corpus: dict[str, Any]
    position: dict[str, Any]
    best: _Best
    validated_step: _Count
    skipped: Annotated[list[_Count], Field(min_length=3, max_length=3)]
    processes: Annotated[int, Field(ge=1, lt=2**31)]
    seconds: _Amount
    matmul_flops: _Amount
    energy_joules: _Amount | None


@dataclass(frozen=True)
class Saves:
    """Saves and loads checkpoints and states of one run."""

    run: RunDirectory
    config: RunConfig
    attachments: Attachments
    """Files that every checkpoint includes."""
    facts: Mapping[str, Any]
    """Additional facts for the manifest of a checkpoint."""

    def save(
        self, model: EncoderDecoder, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
    ) -> None:
        """Publish the checkpoint, then the state; mark them as latest; then delete old ones.

        Raises:
            DivergedError: A weight is not finite; nothing is saved.
            DiskError: The disk is full or fails, or the run is gone; earlier saves stay intact.
        """
        step = progress["step"]
        weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        for name, tensor in weights.items():
            if not tensor.isfinite().all():
                raise DivergedError(f"{name} is not finite")
        facts = {"step": step, **self.facts}
        directory = self.run.checkpoint(step)
        self.run.require_held()
        save_checkpoint(directory, self.config, weights, self.attachments, facts, replace=True)
        self.run.require_held()
        save_training_state(self.run.state(step), optimizer, progress)
        self.run.mark("latest", step)
        training = self.config.training
        self.run.prune(step, training.keep_checkpoints, training.checkpoint_every_steps)

    def load(self, step: int, model: EncoderDecoder, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Restore weights and moments of a step, and return the progress; raises ModelError if damaged."""
        checkpoint = load_checkpoint(self.run.checkpoint(step))
        if (found := checkpoint.manifest.get("step", step)) != step:
            raise ModelError(f"{checkpoint.directory}: is the checkpoint of step {found}; take another copy")
        load_weights(model, checkpoint.weights, checkpoint.weights_path)
        progress = load_training_state(self.run.state(step), optimizer)
        try:
            found = _Progress.model_validate(progress).step
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(str(part) for part in fault["loc"])
            raise ModelError(
                f"{self.run.state(step)}: its progress is damaged: {place}: {fault['msg']}; take another copy"
            ) from None
        if found != step:
            raise ModelError(f"{self.run.state(step)}: is the state of step {found:,}; take another copy")
        return progress


def save_bytes(model: torch.nn.Module, config: TrainingConfig) -> int:
    """Size of a checkpoint and its state: float32 weights with their moments."""
    return (1 + config.moments_per_weight) * 4 * sum(parameter.numel() for parameter in model.parameters())


def fingerprint(model: torch.nn.Module) -> int:
    """A 63-bit hash of all parameters."""
    digest = hashlib.blake2b(digest_size=8)
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().data)
    return int.from_bytes(digest.digest(), "little") >> 1


def load_initial_weights(
    model: EncoderDecoder, optimizer: torch.optim.Optimizer, start: Checkpoint, state: Path | None
) -> None:
    """Load the weights of a model of the same architecture, and the moments in the `state` saved with it.

    Heads for blockwise decoding that the model lacks are drawn.

    Raises:
        ModelError: The weights do not fit, or the state is damaged or lacks moments.
    """
    new = {}
    if model.config.block > 1 == start.config.model.block:
        heads = model.get_submodule("block_heads")
        initialise(heads)
        new = heads.state_dict(prefix="block_heads.")
    load_weights(model, {**new, **start.weights}, start.weights_path)
    if state is None:
        return
    former = build_model(start.config.model, draw=False)
    freeze(former, start.config.training.frozen)
    saved = build_optimizer(former, start.config.training)
    load_training_state(state, saved)
    moments = {name: saved.state.get(parameter) for name, parameter in former.named_parameters()}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        own, found = optimizer.state[parameter], moments.get(name)
        if not found or found.keys() != own.keys():
            raise ModelError(
                f"{state}: has no moments of {name}; leave out init_moments, or freeze it as before"
            )
        for key, value in own.items():
            value.copy_(found[key])
