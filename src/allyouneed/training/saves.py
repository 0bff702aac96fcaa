"""What a run keeps of itself: a checkpoint and the state to resume from, published together."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from allyouneed.config import RunConfig
from allyouneed.errors import DivergedError
from allyouneed.model import EncoderDecoder
from allyouneed.training.checkpoint import (
    Attachments,
    load_checkpoint,
    load_training_state,
    save_checkpoint,
    save_training_state,
)
from allyouneed.training.run_directory import RunDirectory


@dataclass(frozen=True)
class Saves:
    """Saves and loads the steps of one run."""

    run: RunDirectory
    config: RunConfig
    attachments: Attachments
    """The files that every checkpoint carries."""
    facts: Mapping[str, Any]
    """More for the manifest of a checkpoint."""

    def save(
        self, model: EncoderDecoder, optimizer: torch.optim.Optimizer, progress: Mapping[str, Any]
    ) -> None:
        """Publish checkpoint, then state, then say that they are the latest, then delete old ones.

        Raises:
            DivergedError: A weight is not finite; nothing is saved.
            DiskError: The disk is full or fails; what was saved before is whole.
        """
        step = progress["step"]
        weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        for name, tensor in weights.items():
            if not tensor.isfinite().all():
                raise DivergedError(f"{name} is not finite")
        facts = {"step": step, **self.facts}
        directory = self.run.checkpoint(step)
        save_checkpoint(directory, self.config, weights, self.attachments, facts, replace=True)
        save_training_state(self.run.state(step), optimizer, progress)
        self.run.mark("latest", step)
        training = self.config.training
        self.run.prune(step, training.keep_checkpoints, training.checkpoint_every_steps)

    def load(self, step: int, model: EncoderDecoder, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Put back what was saved of a step, and return the progress saved with it.

        Raises:
            ModelError: It is damaged.
        """
        model.load_state_dict(load_checkpoint(self.run.checkpoint(step)).build_model().state_dict())
        return load_training_state(self.run.state(step), optimizer)


def save_bytes(model: torch.nn.Module) -> int:
    """How much room a checkpoint and its state take: the weights, and two moments of each, in float32."""
    return 3 * 4 * sum(parameter.numel() for parameter in model.parameters())


def fingerprint(model: torch.nn.Module) -> int:
    """A number that differs, as good as surely, where one bit of one parameter does: 63 bits of a hash."""
    digest = hashlib.blake2b(digest_size=8)
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().data)
    return int.from_bytes(digest.digest(), "little") >> 1
