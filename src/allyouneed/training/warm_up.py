"""Whether the warm-up of the learning rate (paper 5.3) fits the length of a run."""

import math
from collections.abc import Callable
from pathlib import Path

from allyouneed.config.run import TrainingConfig
from allyouneed.errors import counted
from allyouneed.storage.run_log import Event

_LEAST_WARM_UPS = 2.5
"""Minimum length of a run, in warm-ups; no recipe of this project has a shorter one."""
_ENOUGH_TO_TELL = 0.05
"""Share of a budget that must be used before the length of the run is estimated from it."""


def warm_up_remark(training: TrainingConfig, num_updates: float) -> str:
    """Advice for a warm-up that takes more than two fifths of a run of so many updates; else "".

    The proposed warm-up is a fifth of the run, and the proposed factor keeps the peak of the learning rate.
    """
    if num_updates >= _LEAST_WARM_UPS * training.warmup_steps:
        return ""
    fitting = max(1, int(num_updates / 5))
    factor = training.learning_rate_factor * math.sqrt(fitting / training.warmup_steps)
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

    def before(self, report: Callable[[Event], None]) -> Callable[[Event], None]:
        """A function that passes every event of the run to `see` and then to `report`."""

        def report_both(event: Event) -> None:
            self.see(event)
            report(event)

        return report_both

    def see(self, event: Event) -> None:
        """Estimate the length of the run from an event of its log."""
        if event["event"] == "start":
            self._budgets = {name: budget for name, (_, budget) in event["budgets"].items()}
            self._has_told = event["step"] > 0  # a resumed run was told before
        if event["event"] not in ("start", "train") or self._has_told:
            return
        shares = [event.get(name, 0.0) / budget for name, budget in self._budgets.items()]
        estimates = [float(f"{event['step'] / share:.2g}") for share in shares if share >= _ENOUGH_TO_TELL]
        self._has_told = self._tell(min([self._training.num_steps, *estimates]))

    def end(self, step: int) -> None:
        """Judge a run that has ended after `step` updates."""
        self._tell(step)

    def _tell(self, num_updates: float) -> bool:
        if remark := warm_up_remark(self._training, num_updates):
            self._say(f"{self._run}: {remark}")
        return bool(remark)
