"""A model with its optimizer, and their update, identical in every process (paper 5.1 to 5.4).

Where updates are not finite, one is repeated module by module, to find the source.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.data.batch_plans import PlannedBatch, make_batch
from allyouneed.data.store import PairStore
from allyouneed.errors import DivergedError, ResourceError, is_out_of_memory
from allyouneed.hardware.allocator import keep_freed_memory
from allyouneed.hardware.devices import products_in
from allyouneed.model.architectures import build_model
from allyouneed.model.dropout import Dropout
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.layers import AddAndNorm, Combine, add_and_norm
from allyouneed.training.accumulation import Accumulation, Say
from allyouneed.training.distributed import Processes, Replicas, Shards
from allyouneed.training.loss import smoothing_over_all
from allyouneed.training.optimizer import freeze, learning_rate, trainable
from allyouneed.training.saves import fingerprint
from allyouneed.training.update import (
    MOST_SKIPPED_IN_A_ROW,
    FiniteWatch,
    batch_loss,
    seed_generators,
    use_fastest_operators,
)

_MOST_LINES = 20
"""Number of corpus lines that a message names."""


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
        self.config, self._store, self._processes, self._say = config, store, processes, say
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
        with products_in(self.config.training.precision):
            complete = self._accumulation.add_up(
                planned, step, lambda: not self._in_step and reason_to_stop() > 0, in_step=self._in_step
            )
        if not self._in_step and (stopped_by := self._processes.most(0 if complete else reason_to_stop())):
            return stopped_by
        gradients = self._spread.add_up()
        self._spread.optimizer.param_groups[0]["lr"] = learning_rate(step, self.config)
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
            where = _locate_non_finite(self.model, self._store, self.config.training, planned, step)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            where = "there is not enough memory to find out where"
        first = step - MOST_SKIPPED_IN_A_ROW + 1
        raise DivergedError(f"updates {first:,} to {step:,} were not finite and were skipped; {where}")

    def require_same_weights(self, step: int) -> None:
        """Raise ResourceError, which ends the run, if the weights of a process differ from the first's."""
        if self._in_step or self._processes.size == 1:
            return
        if ranks := self._processes.differing(fingerprint(self.model)):
            raise ResourceError(
                f"process {' and '.join(map(str, ranks))} of {self._processes.size} has other weights than "
                f"process 0 at step {step:,}: its memory or its device fails; train without it",
                label="E-PROCESS",
            )


def _locate_non_finite(
    model: EncoderDecoder, store: PairStore, config: TrainingConfig, planned: PlannedBatch, step: int
) -> str:
    """Describe the first module with a non-finite result in an update, and the corpus lines involved.

    `model` is as it was when the update was skipped; the same random numbers are drawn again.
    """
    smoothing = smoothing_over_all(
        config.label_smoothing, config.label_smoothing_over, model.config.target_vocab_size
    )
    for number, pairs in enumerate(planned.micro_batches):
        seed_generators(config.seed, step, number)
        with _first_non_finite(model) as modules:
            loss = batch_loss(model, make_batch(store, pairs), smoothing, config.precision)
        gradients = torch.autograd.grad(loss.smoothed, trainable(model), allow_unused=True)
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        culprits = [
            *(f"the output of {module}" for module in modules[:1]),
            *(["the loss"] if not loss.smoothed.isfinite() else []),
            *(
                f"the gradient of {name}, or its square,"
                for name, gradient in zip(names, gradients, strict=True)
                if gradient is not None and not torch.linalg.vector_norm(gradient).isfinite()
            ),
        ]
        if culprits:
            lines = sorted(int(line) for line in store.line_numbers[pairs])
            shown = ", ".join(map(str, lines[:_MOST_LINES]))
            more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
            return f"{culprits[0]} is not finite on lines {shown}{more} of the {store.text_of(pairs[0])}"
    return "computed once more they are finite: it was the sum, other random numbers, or the hardware"


@contextlib.contextmanager
def _first_non_finite(model: nn.Module) -> Iterator[list[str]]:
    """Collect the names of modules with non-finite output, in the order in which they finish.

    Where what a kernel computes in place of several modules is not finite, these compute it, too.
    """
    found: list[str] = []

    def watch(name: str, output: object) -> None:
        if isinstance(output, Tensor) and not output.isfinite().all():
            found.append(name or "the model")

    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: watch(name, output))
        for name, module in model.named_modules()
    ]
    combined = [module for module in model.modules() if isinstance(module, AddAndNorm)]
    before = [module.combine for module in combined]
    for module in combined:
        module.combine = partial(_and_by_parts, module.combine)
    try:
        yield found
    finally:
        for module, combine in zip(combined, before, strict=True):
            module.combine = combine
        for handle in handles:
            handle.remove()


def _and_by_parts(combine: Combine, x: Tensor, y: Tensor, dropout: Dropout, norm: nn.LayerNorm) -> Tensor:
    """Call `combine`; if the result is not finite, repeat it by parts, whose outputs are watched."""
    out = combine(x, y, dropout, norm)
    if not out.isfinite().all():
        add_and_norm(x, y, dropout, norm)
    return out
