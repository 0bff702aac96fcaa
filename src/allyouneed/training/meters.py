"""What a run measures of itself: loss and speed between two log lines, and its best validation so far."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

_LOSS_OF_HUGE_PERPLEXITY = 700.0
"""Above it exp() overflows a float."""


class Interval:
    """Loss and speed since the last log line; the loss stays on its device until it is read."""

    def __init__(self, device: torch.device) -> None:
        self._sum = torch.zeros((), device=device)
        self._tokens = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the last `read`."""
        return time.monotonic() - self._began

    def add(self, negative_log_likelihood: Tensor, tokens: int) -> None:
        """Count an update's loss, a sum in nats over `tokens` target tokens."""
        self._sum += negative_log_likelihood
        self._tokens += tokens

    def leave_out(self, seconds: float) -> None:
        """Not count time that did not go into updates."""
        self._began += seconds

    def read(self) -> tuple[float, float]:
        """The mean loss in nats per target token, and target tokens per second; a new interval begins."""
        loss = self._sum.item() / self._tokens
        speed = self._tokens / self.seconds
        self._sum.zero_()
        self._tokens, self._began = 0, time.monotonic()
        return loss, speed


@dataclass
class Best:
    """The best validation so far, by BLEU where there is one, else by loss."""

    value: float = -math.inf
    """Larger is better: BLEU, or the negative loss."""
    step: int = 0
    since: int = 0
    """Validations since then."""

    def update(self, step: int, loss: float, bleu: float | None) -> bool:
        """Count a validation; whether it is the best so far."""
        value = -loss if bleu is None else bleu
        if value > self.value:
            self.value, self.step, self.since = value, step, 0
            return True
        self.since += 1
        return False


def perplexity_of(loss: float) -> float:
    """`exp(loss)`, infinite where that has no float."""
    return math.exp(loss) if loss < _LOSS_OF_HUGE_PERPLEXITY else math.inf
