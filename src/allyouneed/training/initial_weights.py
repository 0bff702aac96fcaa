"""The start of a run that continues a model: its weights, and Adam's moments if they were saved."""

from pathlib import Path

import torch

from allyouneed.errors import ModelError
from allyouneed.model import EncoderDecoder, build_model
from allyouneed.model.weights import load_weights
from allyouneed.storage.checkpoint import Checkpoint, load_training_state
from allyouneed.training.optimizer import build_optimizer, freeze


def load_initial_weights(
    model: EncoderDecoder, optimizer: torch.optim.Optimizer, start: Checkpoint, state: Path | None
) -> None:
    """Load the weights of a model, and the moments of its last update.

    Args:
        model: Model to change.
        optimizer: Adam over the parameters of `model` that are not frozen.
        start: Checkpoint of the same architecture.
        state: Training state that was saved with it; None leaves the moments as they are.

    Raises:
        ModelError: The weights do not fit, or the state is damaged or lacks moments.
    """
    load_weights(model, start.weights, start.weights_path)
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
        if not (found := moments[name]):
            raise ModelError(
                f"{state}: has no moments of {name}; leave out init_moments, or freeze it as before"
            )
        for key, value in optimizer.state[parameter].items():
            value.copy_(found[key])
