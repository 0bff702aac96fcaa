"""Adam and the learning rate of equation 3 (paper 5.3)."""

import torch
from torch import nn

from allyouneed.config import TrainingConfig


def learning_rate(step: int, d_model: int, warmup_steps: int, factor: float) -> float:
    """`factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, for steps from 1 on."""
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Adam:
    """Adam over all parameters, without weight decay; the caller sets the learning rate of every step."""
    betas = config.adam_beta1, config.adam_beta2
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=config.adam_epsilon, fused=True)
