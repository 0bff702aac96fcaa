"""Builds models from named weights, which are checked first."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from allyouneed.config.model import ModelConfig
from allyouneed.errors import ModelError
from allyouneed.model.architectures import outline_model
from allyouneed.model.encoder_decoder import EncoderDecoder

Weights = dict[str, Tensor]

_TENSORS_THAT_MAY_BE_MISSING = 100  # so that a small model's are named even if all are missing


def model_from_weights(config: ModelConfig, weights: Weights, path: Path) -> EncoderDecoder:
    """A model with these weights, which are not copied, on the CPU and in evaluation mode.

    Args:
        config: The architecture.
        weights: Parameter name -> values.
        path: The file that the weights were read from, for error messages.

    Raises:
        ModelError: Weights are missing, left over, misshapen, of a wrong type, or not finite.
    """
    try:
        with _building_at_most(2 * len(weights) + _TENSORS_THAT_MAY_BE_MISSING):
            model = outline_model(config)
    except (RuntimeError, OverflowError, TypeError):  # too many tensors, or too large a tensor
        raise ModelError(
            f"{path}: has {len(weights):,} tensors, and is smaller than the model of its configuration "
            f"(num_layers = {config.num_layers}, d_model = {config.d_model}, d_ff = {config.d_ff}); "
            "take another copy"
        ) from None
    _require_weights_of(model, weights, path)
    model.load_state_dict(weights, assign=True)
    return model.eval()


def load_weights(model: EncoderDecoder, weights: Weights, path: Path) -> None:
    """Load weights into a model, which keeps its own if they do not fit; see `model_from_weights`."""
    _require_weights_of(model, weights, path)
    model.load_state_dict(weights)


def _require_weights_of(model: EncoderDecoder, weights: Weights, path: Path) -> None:
    infinite = [
        f"{name} holds values that are not finite"
        for name, tensor in weights.items()
        # A sum tells so 20 times as fast, but finite values may also overflow in it.
        if tensor.dtype == torch.float32 and not (tensor.sum().isfinite() or tensor.isfinite().all())
    ]
    if faults := _misfits(model.state_dict(), weights) + infinite:
        raise ModelError([f"{path}: {fault}; take another copy" for fault in faults])


@contextmanager
def _building_at_most(num_tensors: int) -> Iterator[None]:
    """Stop this thread with a RuntimeError when it builds a model with more than `num_tensors` tensors."""
    left, thread = num_tensors, get_ident()

    def count(*_: object) -> None:
        nonlocal left
        left -= get_ident() == thread
        if left < 0:
            raise RuntimeError(f"more than {num_tensors} tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _misfits(expected: Weights, found: Weights) -> list[str]:
    """One fault for each tensor that differs from the expected one in name, shape or type."""
    faults = [f"has no tensor {name}" for name in expected if name not in found]
    for name, tensor in found.items():
        if name not in expected:
            faults.append(f"has a tensor {name} that the configuration does not know")
        elif tensor.shape != expected[name].shape:
            faults.append(f"{name} is {tuple(tensor.shape)}, {tuple(expected[name].shape)} expected")
        elif tensor.dtype != torch.float32:
            faults.append(f"{name} is {tensor.dtype}, torch.float32 expected")
    return faults
