"""Optimizers and learning-rate schedules (paper 5.3), and which parameters are trained."""

import functools
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.errors import UsageError


def adam(parameters: Sequence[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam without weight decay (5.3; Kingma and Ba 2015)."""
    betas = config.adam_beta1, config.adam_beta2
    optimizer = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=config.adam_epsilon, fused=True)
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }
    return optimizer


OPTIMIZERS: Mapping[str, Callable[[Sequence[nn.Parameter], TrainingConfig], torch.optim.Optimizer]] = {
    "adam": adam
}
"""`TrainingConfig.optimizer` -> function that makes it of one group of parameters.

All tensors of its state exist from the start, so that they can be saved, copied and counted before the first
step. Each step's learning rate is set by the caller.
"""


def inverse_square_root(step: int, d_model: int, config: TrainingConfig) -> float:
    """Equation 3: `d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, times a factor."""
    factor, warmup_steps = config.learning_rate_factor, config.warmup_steps
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


SCHEDULES: Mapping[str, Callable[[int, int, TrainingConfig], float]] = {
    "inverse_square_root": inverse_square_root
}
"""`TrainingConfig.schedule` -> learning rate of a step, from 1, of a model of width `d_model`."""


def learning_rate(step: int, config: RunConfig) -> float:
    """The learning rate of a step; steps count from 1."""
    return SCHEDULES[config.training.schedule](step, config.model.d_model, config.training)


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build the optimizer of all parameters that are not frozen."""
    return OPTIMIZERS[config.optimizer](trainable(model), config)


def step_unless(skips: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Step an optimizer; if it is fused, nothing changes where `skips` is 1, its step count included."""
    optimizer.found_inf, optimizer.grad_scale = skips, None  # type: ignore[attr-defined]
    optimizer.step()


@functools.cache
def skips_if_told(kind: type[torch.optim.Optimizer], device: torch.device) -> bool:
    """Whether a fused optimizer heeds `step_unless`, found by trying; Apple's did not before mid-2026."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float32, device=device))
    weight.grad = torch.ones_like(weight)
    skips = torch.ones((), dtype=torch.float32, device=device)
    step_unless(skips, kind([weight], fused=True))  # type: ignore[call-arg]
    return weight.item() == 0


def moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All tensors of an optimizer's state, in the order of parameters and names."""
    return [
        tensor
        for group in optimizer.param_groups
        for parameter in group["params"]
        for _, tensor in sorted(optimizer.state[parameter].items())
    ]


def moments_per_weight(config: TrainingConfig) -> int:
    """Number of values that the optimizer keeps for each weight; two with Adam."""
    [state] = OPTIMIZERS[config.optimizer]([nn.Parameter(torch.zeros(1))], config).state.values()
    return sum(tensor.dim() > 0 for tensor in state.values())


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
