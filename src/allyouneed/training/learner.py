"""A model with its optimizer, and their update, identical in every process (paper 5.1 to 5.4)."""

from collections.abc import Callable

import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.store import PairStore
from allyouneed.errors import DivergedError, ResourceError, is_out_of_memory
from allyouneed.hardware.memory import keep_freed_memory
from allyouneed.model import build_model
from allyouneed.training.accumulation import Accumulation, Say
from allyouneed.training.diagnosis import locate_non_finite
from allyouneed.training.distributed import Processes
from allyouneed.training.gradients import MOST_SKIPPED_IN_A_ROW, FiniteWatch
from allyouneed.training.optimizer import freeze, learning_rate
from allyouneed.training.replicas import Replicas, Shards
from allyouneed.training.saves import fingerprint
from allyouneed.training.update import seed_generators, use_fastest_operators


class Learner:
    """The model and optimizer of one process of a run.

    `config` has the corpus's vocabulary sizes and a resolved precision. If not `draw`, the caller loads
    weights.
    """

    def __init__(
        self,
        config: RunConfig,
        store: PairStore,
        device: torch.device,
        processes: Processes,
        say: Say,
        *,
        draw: bool = True,
    ) -> None:
        self._config, self._store, self._processes, self._say = config, store, processes, say
        keep_freed_memory()
        seed_generators(config.training.seed, 0, 0)
        # Shards compute only together: all processes run equally many micro-batches, or none.
        self._in_step = config.training.sharded and processes.size > 1
        model = build_model(config.model, draw=draw).train()
        freeze(model, config.training.frozen)
        self._spread = (Shards if self._in_step else Replicas)(model, config.training, device, processes)
        self.model, self.optimizer = self._spread.whole_model, self._spread.whole_optimizer
        """Model and optimizer that the first process saves, loads and validates; see `gather`, `spread`."""
        self.loss = self._spread.gradients.loss
        """Sum of the unsmoothed losses of the last update's target tokens, in nats; on the device."""
        self.gather, self.spread = self._spread.gather, self._spread.spread
        use_fastest_operators(self._spread.model, config.training)
        self._accumulation = Accumulation(
            self._spread.model, self._spread.gradients, store, config.training, processes, say
        )
        self._watch = FiniteWatch(self._spread.optimizer, device)
        self._num_skipped = 0

    @property
    def skipped(self) -> list[int]:
        """The counts of `FiniteWatch`, for `restore`."""
        return self._watch.counts()

    def restore(self, skipped: list[int]) -> None:
        """Restore the counts of skipped updates; weights and moments are restored separately."""
        self._watch.restore(skipped)
        self._num_skipped = skipped[1]

    def update(self, planned: PlannedBatch, step: int, reason_to_stop: Callable[[], int]) -> int:
        """Take one step of the optimizer on a global batch.

        `reason_to_stop` is called before every micro-batch; 0 means none.

        Returns:
            0, or the reason to stop if any process had one before the gradient was complete; in that case
            nothing has changed.
        """
        if self._in_step and (stopped_by := self._processes.most(reason_to_stop())):
            return stopped_by
        complete = self._accumulation.add_up(
            planned, step, lambda: not self._in_step and reason_to_stop() > 0, in_step=self._in_step
        )
        if not self._in_step and (stopped_by := self._processes.most(0 if complete else reason_to_stop())):
            return stopped_by
        gradients = self._spread.add_up()
        self._spread.optimizer.param_groups[0]["lr"] = learning_rate(step, self._config)
        self._watch.update(gradients, step)
        return 0

    def require_finite(self, plan: Callable[[int], PlannedBatch]) -> None:
        """End the run if three updates in a row were skipped; report fewer. Waits for the device.

        `plan` returns the batch of an update, by its number.

        Raises:
            DivergedError: Three updates in a row were skipped; names the module and the corpus lines.
        """
        _, num_skipped, halted_at = self._watch.counts()
        if halted_at:
            self.gather()
            self._processes.first_alone(lambda: self._give_up(plan(halted_at), halted_at))
        if more := num_skipped - self._num_skipped:
            if self._processes.is_first:  # the counts are equal in all processes
                self._say(
                    f"skipped {more} update{'s' * (more > 1)} whose gradient was not finite or too large"
                )
            self._num_skipped = num_skipped

    def _give_up(self, planned: PlannedBatch, step: int) -> None:
        try:
            where = locate_non_finite(self.model, self._store, self._config.training, planned, step)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            where = "there is not enough memory to find out where"
        first = step - MOST_SKIPPED_IN_A_ROW + 1
        raise DivergedError(f"updates {first:,} to {step:,} were not finite and were skipped; {where}")

    def require_same_weights(self, step: int) -> None:
        """End the run if the weights of any process differ from those of the first.

        Raises:
            ResourceError: The weights differ; names the process.
        """
        if self._in_step or self._processes.size == 1:
            return
        if ranks := self._processes.differing(fingerprint(self.model)):
            raise ResourceError(
                f"process {' and '.join(map(str, ranks))} of {self._processes.size} has other weights than "
                f"process 0 at step {step:,}: its memory or its device fails; train without it",
                label="E-PROCESS",
            )
