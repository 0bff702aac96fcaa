"""Adam and the learning rate of equation 3 (paper 5.3)."""

import functools
from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from allyouneed.config.run import TrainingConfig
from allyouneed.errors import UsageError


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that training changes, in order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Exclude the parameters whose names match a pattern from gradients and updates."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not _matches(name, patterns))


def require_some_trainable(model: nn.Module, patterns: Sequence[str]) -> None:
    """Check that each pattern matches a parameter, and that some parameter matches none.

    Raises:
        UsageError: A pattern matches nothing, or all parameters would be frozen.
    """
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            beginnings = dict.fromkeys(".".join(name.split(".")[:2]) for name in names)
            raise UsageError(
                f"training.frozen: {pattern!r} matches no parameter; names begin with {', '.join(beginnings)}"
            )
    if all(_matches(name, patterns) for name in names):
        raise UsageError("training.frozen: matches all parameters; leave some to train")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def learning_rate(step: int, d_model: int, warmup_steps: int, factor: float) -> float:
    """`factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`; `step` counts from 1."""
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Adam:
    """Build Adam over all parameters that are not frozen, without weight decay; the caller sets each step's
    learning rate.

    The moments exist from the start, so they can be saved, copied and counted before the first step.
    """
    betas = config.adam_beta1, config.adam_beta2
    parameters = trainable(model)
    adam = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=config.adam_epsilon, fused=True)
    for parameter in parameters:
        adam.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }
    return adam


def step_unless(skips: Tensor, optimizer: torch.optim.Adam) -> None:
    """Step a fused Adam, whose kernel changes nothing, its step count included, where `skips` is 1."""
    optimizer.found_inf, optimizer.grad_scale = skips, None  # type: ignore[attr-defined]
    optimizer.step()


@functools.cache
def skips_if_told(device: torch.device) -> bool:
    """Whether the device's kernel heeds `step_unless`, found by trying; Apple's did not before mid-2026."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float32, device=device))
    weight.grad = torch.ones_like(weight)
    step_unless(torch.ones((), dtype=torch.float32, device=device), torch.optim.Adam([weight], fused=True))
    return weight.item() == 0


def moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All tensors of an optimizer's state, in the order of parameters and names."""
    return [
        tensor
        for group in optimizer.param_groups
        for parameter in group["params"]
        for _, tensor in sorted(optimizer.state[parameter].items())
    ]
