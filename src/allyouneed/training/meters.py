"""Measurements of a run: loss and speed between two log lines, and the best validation so far."""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from allyouneed.evaluation.perplexity import perplexity


class Reading(NamedTuple):
    """Measurements of an interval."""

    loss: float | None
    """Mean loss in nats per target token; None if no update was finite."""
    updates_per_second: float
    """Updates per second."""
    tokens_per_second: float
    """Target tokens per second."""
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
        """Count an update.

        Args:
            loss: Sum over the update's target tokens, in nats; excluded from the mean if not finite.
            tokens: Number of target tokens.
            flops: FLOPs of the matrix products.
        """
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

    def __post_init__(self) -> None:
        if self.value == 0:  # in states that earlier versions wrote while BLEU or F1 was 0
            self.value = -math.inf

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
