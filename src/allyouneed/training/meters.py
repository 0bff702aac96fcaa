"""Measurements of a run: loss and speed between two log lines, validations, and the best of them."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import length_batches, make_batch
from allyouneed.data.store import PairStore
from allyouneed.evaluation.scores import perplexity
from allyouneed.hardware.energy import EnergyMeter
from allyouneed.model.dropout import evaluation_mode
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.training.update import batch_loss


class CostMeter:
    """Accumulates the cost of a run; in each process it counts the FLOPs of all processes.

    With several processes, energy is unknown, as each sees only its own GPU. `clock` returns seconds.
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


class Reading(NamedTuple):
    """Measurements of an interval."""

    loss: float | None
    """Mean loss in nats per target token; None if no update was finite."""
    updates_per_second: float
    tokens_per_second: float
    flops_per_second: float
    """FLOPs of the matrix products per second."""


class Interval:
    """Loss and speed since the last log line. The loss stays on its device until it is read."""

    def __init__(self, device: torch.device) -> None:
        self._loss_and_tokens = torch.zeros(2, device=device)
        self._updates = self._tokens = self._flops = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the last `read`."""
        return time.monotonic() - self._began

    def add(self, loss: Tensor, tokens: int, flops: int) -> None:
        """Count an update; a `loss`, its sum over target tokens in nats, that is not finite is left out."""
        counted = torch.stack((loss, torch.full_like(loss, tokens)))
        self._loss_and_tokens += torch.where(loss.isfinite(), counted, 0.0)
        self._updates += 1
        self._tokens += tokens
        self._flops += flops

    def leave_out(self, seconds: float) -> None:
        """Exclude time that was not spent on updates."""
        self._began += seconds

    def read(self) -> Reading:
        """Return the mean loss and the speed, and begin a new interval."""
        loss, tokens = self._loss_and_tokens.tolist()
        seconds = self.seconds
        speeds = (count / seconds for count in (self._updates, self._tokens, self._flops))
        reading = Reading(loss / tokens if tokens else None, *speeds)
        self._loss_and_tokens.zero_()
        self._updates = self._tokens = self._flops = 0
        self._began = time.monotonic()
        return reading


@dataclass
class Best:
    """The best validation so far: by BLEU or F1 if measured, else by loss."""

    value: float = -math.inf
    """Larger is better: BLEU, F1, or the negative loss if there is neither or it is 0."""
    step: int = 0
    since: int = 0
    """Number of validations since then."""
    convention: str = ""
    """Convention of the score, if not the usual one."""

    def update(self, step: int, loss: float, score: float | None) -> bool:
        """Count a validation; return whether it is the best so far."""
        value = score or -loss  # a score of 0 tells nothing yet, and loses against any other
        if value > self.value:
            self.value, self.step, self.since = value, step, 0
            return True
        self.since += 1
        return False

    def is_out_of(self, patience: int | None) -> bool:
        """Whether so many validations have brought no improvement."""
        return patience is not None and self.since >= patience


def perplexity_of(loss: float) -> float:
    """`exp(loss)`, or infinity where that overflows a float."""
    return perplexity(loss, 1).value


_MAX_TOKENS = 4_096


class Validation(NamedTuple):
    """Scores of a model's outputs on held-out examples."""

    scores: Callable[[EncoderDecoder], Mapping[str, float]]
    """Function that returns the scores by name."""
    best_by: str
    """Name of the score whose maximum is the best validation; if absent, the lowest loss is best."""
    convention: str = ""
    """Convention of the score, such as "bleu_zh", if not the usual one; scores of others are not compared."""
    reason: str = ""
    """Reason for that convention, shown to the user."""
    penalised: Callable[[EncoderDecoder, float], float] | None = None
    """Function that returns the score of a beam search with a length penalty, if the outputs have one."""


LOSS_ALONE = Validation(lambda model: {}, "")


def validation_loss(model: EncoderDecoder, store: PairStore) -> float:
    """Mean negative log-likelihood in nats per target token, end symbols included."""
    lengths = np.maximum(store.source_lengths, store.target_lengths) + 1
    total, tokens = 0.0, 0
    with evaluation_mode(model.modules()):
        for indices in length_batches(lengths, batch_tokens=_MAX_TOKENS):
            batch = make_batch(store, indices)
            loss = batch_loss(model, batch, smoothing=0.0, precision="float32")
            total += loss.negative_log_likelihood.item()
            tokens += batch.num_target_tokens
    return total / tokens
