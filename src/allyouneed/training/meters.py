"""What a run measures of itself: loss and speed between two log lines, and its best validation so far."""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_LOSS_OF_HUGE_PERPLEXITY = 700.0
"""Above it exp() overflows a float."""


class Reading(NamedTuple):
    """What an interval has measured."""

    loss: float | None
    """The mean in nats per target token; None where no update was finite."""
    tokens_per_second: float
    """Target tokens."""
    flops_per_second: float
    """FLOPs of the matrix products per second."""


class Interval:
    """Loss and speed since the last log line; the loss stays on its device until it is read."""

    def __init__(self, device: torch.device) -> None:
        self._loss_and_tokens = torch.zeros(2, device=device)
        self._tokens = self._flops = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the last `read`."""
        return time.monotonic() - self._began

    def add(self, loss: Tensor, tokens: int, flops: int) -> None:
        """Count an update.

        Args:
            loss: The sum over its target tokens, in nats; left out of the mean where it is not finite.
            tokens: Its target tokens.
            flops: FLOPs of its matrix products.
        """
        counted = torch.stack((loss, torch.full_like(loss, tokens)))
        self._loss_and_tokens += torch.where(loss.isfinite(), counted, 0.0)
        self._tokens += tokens
        self._flops += flops

    def leave_out(self, seconds: float) -> None:
        """Not count time that did not go into updates."""
        self._began += seconds

    def read(self) -> Reading:
        """The mean loss and the speed; a new interval begins."""
        loss, tokens = self._loss_and_tokens.tolist()
        seconds = self.seconds
        reading = Reading(loss / tokens if tokens else None, self._tokens / seconds, self._flops / seconds)
        self._loss_and_tokens.zero_()
        self._tokens = self._flops = 0
        self._began = time.monotonic()
        return reading


@dataclass
class Best:
    """The best validation so far, by BLEU or F1 where there is one, else by loss."""

    value: float = -math.inf
    """Larger is better: BLEU, F1, or the negative loss."""
    step: int = 0
    since: int = 0
    """Validations since then."""

    def update(self, step: int, loss: float, score: float | None) -> bool:
        """Count a validation; whether it is the best so far."""
        value = -loss if score is None else score
        if value > self.value:
            self.value, self.step, self.since = value, step, 0
            return True
        self.since += 1
        return False


def perplexity_of(loss: float) -> float:
    """`exp(loss)`, infinite where that has no float."""
    return math.exp(loss) if loss < _LOSS_OF_HUGE_PERPLEXITY else math.inf
