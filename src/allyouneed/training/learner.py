"""A model with its optimizer, and one update of them, the same in every process (paper 5.1 to 5.4)."""

from collections.abc import Callable

import torch

from allyouneed.config import RunConfig
from allyouneed.data.batching import PlannedBatch
from allyouneed.data.store import PairStore
from allyouneed.errors import DivergedError, ResourceError
from allyouneed.model import Transformer
from allyouneed.training.accumulation import Accumulation, Say
from allyouneed.training.diagnosis import locate_non_finite
from allyouneed.training.distributed import Processes
from allyouneed.training.gradients import MOST_SKIPPED_IN_A_ROW, FiniteWatch, Gradients
from allyouneed.training.optimizer import build_optimizer, learning_rate, moments
from allyouneed.training.saves import fingerprint
from allyouneed.training.update import seed_generators, use_fastest_attention


class Learner:
    """What is trained, in each process of a run.

    Args:
        config: Complete: vocabulary sizes as in the corpus, precision resolved.
        store: The sentence pairs.
        device: Where to compute.
        processes: This process among those of the run.
        say: Is told what the user should know, in a line.
    """

    def __init__(
        self, config: RunConfig, store: PairStore, device: torch.device, processes: Processes, say: Say
    ) -> None:
        self._config, self._store, self._processes, self._say = config, store, processes, say
        seed_generators(config.training.seed, 0, 0)
        self.model = Transformer(config.model).to(device).train()
        use_fastest_attention(self.model, config.training.precision)
        self.optimizer = build_optimizer(self.model, config.training)
        self._gradients = Gradients(self.model)
        self.loss = self._gradients.loss
        """The sum of the unsmoothed losses of the last update's target tokens, in nats; on the device."""
        self._accumulation = Accumulation(self.model, self._gradients, store, config.training, processes, say)
        self._watch = FiniteWatch(self.optimizer, device)
        self._num_skipped = 0

    @property
    def skipped(self) -> list[int]:
        """What `FiniteWatch.counts` says, for `restore`."""
        return self._watch.counts()

    def restore(self, skipped: list[int]) -> None:
        """Go on after a resume; weights and moments are put back by themselves."""
        self._watch.restore(skipped)
        self._num_skipped = skipped[1]

    def copy_from_first(self) -> None:
        """Let every process have the weights and moments of the first."""
        self._processes.copy_from_first([*self.model.state_dict().values(), *moments(self.optimizer)])

    def update(self, planned: PlannedBatch, step: int, reason_to_stop: Callable[[], int]) -> int:
        """Take one step of Adam on a global batch.

        Args:
            planned: The batch.
            step: The number of the update, from 1.
            reason_to_stop: Looked at before every micro-batch; 0 is none.

        Returns:
            The reason to stop, of whichever process, if there was one before the gradient was complete;
            then nothing has changed. Else 0.
        """
        complete = self._accumulation.add_up(planned, step, lambda: reason_to_stop() > 0)
        if stopped_by := self._processes.most(0 if complete else reason_to_stop()):
            return stopped_by
        self._processes.add_up(self._gradients.buffer)
        self._watch.inspect(self._gradients.buffer, step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        self.optimizer.step()
        return 0

    def learning_rate(self, step: int) -> float:
        """Equation 3."""
        training = self._config.training
        return learning_rate(
            step, self._config.model.d_model, training.warmup_steps, training.learning_rate_factor
        )

    def require_finite(self, plan: Callable[[int], PlannedBatch]) -> None:
        """Give up where three updates in a row were skipped; tell of fewer. Waits for the device.

        Args:
            plan: The batch of an update, by its number.

        Raises:
            DivergedError: With the updates, the module and the lines of the corpus.
        """
        _, num_skipped, halted_at = self._watch.counts()
        if halted_at:
            self._processes.first_alone(lambda: self._give_up(plan(halted_at), halted_at))
        if num_skipped > self._num_skipped:
            self._say(f"skipped {num_skipped - self._num_skipped} updates: their gradient was not finite")
            self._num_skipped = num_skipped

    def _give_up(self, planned: PlannedBatch, step: int) -> None:
        where = locate_non_finite(self.model, self._store, self._config.training, planned, step)
        first = step - MOST_SKIPPED_IN_A_ROW + 1
        raise DivergedError(f"updates {first:,} to {step:,} were not finite and were skipped; {where}")

    def require_same_weights(self, step: int) -> None:
        """Give up where a process has computed other weights than the first.

        Raises:
            ResourceError: With the number of the process.
        """
        if self._processes.size > 1 and (ranks := self._processes.differing(fingerprint(self.model))):
            raise ResourceError(
                f"process {' and '.join(map(str, ranks))} of {self._processes.size} has other weights than "
                f"process 0 at step {step:,}: its memory or its device fails; train without it",
                label="E-PROCESS",
            )
