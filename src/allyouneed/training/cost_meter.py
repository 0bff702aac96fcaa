"""What a run costs: wall time, FLOPs of matrix products, and energy; carried over where it is resumed."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from allyouneed.config.run import TrainingConfig
from allyouneed.hardware.energy import EnergyMeter


class CostMeter:
    """Adds up; in each process of a run, for all of them together.

    Args:
        device: Device to compute on.
        num_processes: Number of processes; the energy of several is unknown, as each sees its own GPU only.
        clock: Seconds from any moment on.
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
        """What there is a budget of, as `train` events name it -> how much is used, and the budget.

        Of the seconds since the last update a save may not know: what was over budget is so when resumed.
        """
        used = {
            "seconds": (self._seconds_at_update, config.budget_seconds),
            "matmul_flops": (self.flops, config.budget_flops),
        }
        return {name: (amount, budget) for name, (amount, budget) in used.items() if budget is not None}

    def is_over(self, config: TrainingConfig) -> bool:
        """Whether FLOPs or seconds of the updates have reached their budget, if there is one."""
        return any(used >= budget for used, budget in self.budgets(config).values())

    def read(self) -> dict[str, float | None]:
        """All so far, for the log and for `restore`; the energy is this machine's, where it can be read.

        Ask every few minutes: the counters of energy run over.
        """
        joules = self._energy.joules() if self._alone else None
        known = joules is not None and self._joules_before is not None
        return {
            "seconds": self._seconds(),
            "matmul_flops": self.flops,
            "energy_joules": (self._joules_before or 0.0) + (joules or 0.0) if known else None,
        }

    def restore(self, progress: Mapping[str, Any]) -> None:
        """Go on from what `read` returned; what is not there counts for nothing."""
        self._began = self._clock()
        self._seconds_before = self._seconds_at_update = progress.get("seconds", 0.0)
        self.flops, self._joules_before = progress.get("matmul_flops", 0.0), progress.get("energy_joules")
        self._energy = EnergyMeter(self._device)

    def _seconds(self) -> float:
        return self._seconds_before + self._clock() - self._began
