"""The cost of a run, across resumes: wall time, FLOPs of matrix products, and energy."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from allyouneed.config.run import TrainingConfig
from allyouneed.hardware.energy import EnergyMeter


class CostMeter:
    """Accumulates the cost of a run; in each process it counts the FLOPs of all processes.

    Args:
        device: Device to compute on.
        num_processes: Number of processes; if more than 1, energy is unknown, as each sees only its own GPU.
        clock: Function that returns seconds since an arbitrary moment.
    """

    def __init__(
        self, device: torch.device, num_processes: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._device, self._alone, self._clock = device, num_processes == 1, clock
        self.flops = 0.0
        """FLOPs of all updates so far."""
        self._began = clock()
        self._seconds_before = self._seconds_at_update = 0.0
        self._joules_before: float | None = 0.0
        self._energy = EnergyMeter(device)

    def add(self, flops: int) -> None:
        """Count an update, which ends now."""
        self.flops, self._seconds_at_update = self.flops + flops, self._seconds()

    def budgets(self, config: TrainingConfig) -> dict[str, tuple[float, float]]:
        """For each budget, by its name in `train` events: the amount used and the budget.

        Seconds count up to the last update, so that a run that is over budget still is when resumed.
        """
        used = {
            "seconds": (self._seconds_at_update, config.budget_seconds),
            "matmul_flops": (self.flops, config.budget_flops),
        }
        return {name: (amount, budget) for name, (amount, budget) in used.items() if budget is not None}

    def is_over(self, config: TrainingConfig) -> bool:
        """Whether the updates have reached a budget of FLOPs or seconds."""
        return any(used >= budget for used, budget in self.budgets(config).values())

    def read(self) -> dict[str, float | None]:
        """The total so far, for the log and for `restore`; energy covers this machine, if it is readable.

        Call it every few minutes, as energy counters overflow.
        """
        joules = self._energy.joules() if self._alone else None
        known = joules is not None and self._joules_before is not None
        return {
            "seconds": self._seconds(),
            "matmul_flops": self.flops,
            "energy_joules": (self._joules_before or 0.0) + (joules or 0.0) if known else None,
        }

    def restore(self, progress: Mapping[str, Any]) -> None:
        """Continue from the result of `read`; missing amounts count as zero, missing energy as unknown."""
        self._began = self._clock()
        self._seconds_before = self._seconds_at_update = progress.get("seconds", 0.0)
        self.flops, self._joules_before = progress.get("matmul_flops", 0.0), progress.get("energy_joules")
        self._energy = EnergyMeter(self._device)

    def _seconds(self) -> float:
        return self._seconds_before + self._clock() - self._began
