"""Switches a model to evaluation and back."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Disable dropout and gradients inside the block; restore the mode of each module after it.

    Args:
        modules: All modules of a model, as `model.modules()` lists them.
    """
    in_training = [module for module in modules if module.training]
    for module in in_training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in in_training:
            module.training = True
