"""The time that a run was planned for, and the end that it moves, once, if it would miss it."""

from itertools import pairwise

from allyouneed.config.run import TrainingConfig

SHARE_OF_UPDATES = 0.92
"""Share of a budget that is planned for updates; the rest is for measurements, validations and delays."""
MOST_EPOCHS = 100
"""Number of epochs of a budget after which little more is learned."""
LEAST_TO_SEARCH = 600.0
"""Seconds of a budget from which on it has time to choose a length penalty."""
_EARLIEST, _LATEST, _MOVED = 0.75, 0.98, 0.96
"""Shares of a budget between which the last update must be made, and where a moved end lies."""
_PATIENCE = 0.12
"""Share of a budget by which a run may be late before its first update, as its machine may become faster or
slower still, and an end is moved only once; it shrinks with the updates that are left."""
_WORTH = 1.05
"""Least factor by which a run is made longer."""


class Deadline:
    """The pace of a run, seen at its checkpoints from `step` on, which it reached after so many seconds."""

    def __init__(self, step: int = 0, seconds: float = 0.0) -> None:
        self._seen = [(step, seconds)]

    def fitting_end(self, step: int, seconds: float, training: TrainingConfig, most_steps: int) -> int:
        """The number of updates in the run: `num_steps`, or others if it would be late or much too early.

        It would be if both intervals between the last three checkpoints were too slow or too fast; one alone
        may have been disturbed.

        Args:
            step: The last update, which is a checkpoint.
            seconds: Seconds of the run until then.
            training: Its settings so far.
            most_steps: Greatest number of updates that is of use.
        """
        if step > self._seen[-1][0]:
            self._seen = [*self._seen[-2:], (step, seconds)]
        if training.planned_seconds is None or training.moved_end or len(self._seen) < 3:
            return training.num_steps
        paces = [(end - begin) / (n - m) for (m, begin), (n, end) in pairwise(self._seen)]
        planned, updates = training.planned_seconds, training.num_steps - step
        left = max(0.0, _MOVED * planned - seconds)
        latest = _LATEST + _PATIENCE * updates / training.num_steps
        if seconds + min(paces) * updates > latest * planned:
            return min(training.num_steps, step + max(1, int(left / min(paces))))
        longer = min(step + int(left / max(paces)), most_steps)
        if seconds + max(paces) * updates < _EARLIEST * planned and longer > _WORTH * training.num_steps:
            return longer
        return training.num_steps
