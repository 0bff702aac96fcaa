"""Switches a model to evaluation and back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Disable dropout and gradients inside the block; restore the mode of each module after it."""
    in_training = [module for module in model.modules() if module.training]
    for module in in_training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in in_training:
            module.training = True
