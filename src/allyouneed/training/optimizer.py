"""Optimizers, schedules of the learning rate and their warm-up (paper 5.3), and the trained parameters."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.errors import UsageError, counted
from allyouneed.storage.run_log import Event

_LEAST_WARM_UPS = 2.5
"""Minimum length of a run, in warm-ups; no recipe of this project has a shorter one."""
_ENOUGH_TO_TELL = 0.05
"""Share of a budget that must be used before the length of the run is estimated from it."""


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


def linear_decay(step: int, d_model: int, config: TrainingConfig) -> float:
    """The warm-up of equation 3, then a straight line from its peak to 0 at the end of the run.

    Where a run has moved its end, another line leads from there to 0.
    """
    moved_at, num_steps = config.moved_end or (config.num_steps, config.num_steps)
    warmup_steps = min(config.warmup_steps, num_steps)
    rate = inverse_square_root(min(step, warmup_steps), d_model, config)
    rate *= min(1.0, (num_steps + 1 - min(step, moved_at)) / (num_steps + 1 - warmup_steps))
    if step > moved_at:
        rate *= (config.num_steps + 1 - step) / (config.num_steps + 1 - moved_at)
    return rate


SCHEDULES: Mapping[str, Callable[[int, int, TrainingConfig], float]] = {
    "inverse_square_root": inverse_square_root,
    "linear_decay": linear_decay,
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


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that training changes, in order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Exclude the parameters whose names match a pattern from gradients and updates."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not _matches(name, patterns))


def require_some_trainable(model: nn.Module, patterns: Sequence[str]) -> None:
    """Raise UsageError if a pattern matches no parameter, or all parameters match one."""
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


def fitting_warm_up(training: TrainingConfig, num_updates: float) -> tuple[int, float] | None:
    """Warm-up and factor for a run of so many updates, if the given warm-up takes more than two fifths of it.

    The warm-up is then a fifth of the run, and the factor keeps the peak of the learning rate.
    """
    if num_updates >= _LEAST_WARM_UPS * training.warmup_steps:
        return None
    fitting = max(1, int(num_updates / 5))
    return fitting, training.learning_rate_factor * math.sqrt(fitting / training.warmup_steps)


def warm_up_remark(training: TrainingConfig, num_updates: float) -> str:
    """Advice for a warm-up that takes more than two fifths of a run of so many updates; else ""."""
    if (found := fitting_warm_up(training, num_updates)) is None:
        return ""
    fitting, factor = found
    return (
        f"training.warmup_steps = {training.warmup_steps:,} is too long for a run of "
        f"{counted(round(num_updates), unit='updates')}; train longer, or train a new run with "
        f"training.warmup_steps={fitting} and training.learning_rate_factor={factor:.2g}"
    )


class WarmUpWatch:
    """Tells the user of a warm-up that is too long: once as soon as it is known, and again at the end."""

    def __init__(self, run: Path, training: TrainingConfig, say: Callable[[str], None]) -> None:
        self._run, self._training, self._say = run, training, say
        self._budgets: dict[str, float] = {}
        self._has_told = False

    def see(self, event: Event) -> None:
        """Estimate the length of the run from an event of its log."""
        if event["event"] == "start":
            self._budgets = {name: budget for name, (_, budget) in event["budgets"].items()}
            self._has_told = event["step"] > 0  # a resumed run was told before
        if event["event"] not in ("start", "train") or self._has_told:
            return
        shares = [event.get(name, 0.0) / budget for name, budget in self._budgets.items()]
        estimates = [float(f"{event['step'] / share:.2g}") for share in shares if share >= _ENOUGH_TO_TELL]
        self._has_told = self.end(min([self._training.num_steps, *estimates]))

    def end(self, step: float) -> bool:
        """Judge a run that has ended, or will end, after `step` updates; return whether there is a remark."""
        if remark := warm_up_remark(self._training, step):
            self._say(f"{self._run}: {remark}")
        return bool(remark)
