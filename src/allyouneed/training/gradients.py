"""The gradient of an update in one buffer, and the watch that skips non-finite updates."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from allyouneed.native.gradient_kernels import accumulate_
from allyouneed.training.optimizer import skips_if_told, step_unless

MOST_SKIPPED_IN_A_ROW = 3
"""A run ends after this many skipped updates in a row."""

_ALIGNMENT = 16


class GradientPart(NamedTuple):
    """Views of the buffer, each with the gradient of a micro-batch to add to it, and the loss.

    No gradients are left where a backward pass has added them.
    """

    gradients: Sequence[tuple[Tensor, Tensor]]
    loss: Tensor


class Gradients:
    """The gradients of all parameters and the loss in one buffer.

    One sum over the processes and one finiteness check then cover everything. Each parameter's `grad` is a
    view of the buffer: backward passes add to it, and it must not be replaced.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        # Every view is aligned for vector instructions.
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in parameters]
        self.buffer = torch.zeros(sum(sizes) + 1, dtype=parameters[0].dtype, device=parameters[0].device)
        *pieces, loss = self.buffer.split([*sizes, 1])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece[: parameter.numel()].view_as(parameter)
        self.loss = loss[0]
        """Sum of the losses of the batch so far, in nats; a scalar view of the buffer."""

    def clear(self) -> None:
        """Set everything to zero for the next update."""
        self.buffer.zero_()

    def add(self, part: GradientPart) -> None:
        """Add the gradients and the loss of a micro-batch."""
        for view, gradient in part.gradients:
            accumulate_(view, gradient)
        self.loss += part.loss


class FiniteWatch:
    """Skips updates whose gradient or loss is not finite or too large; after three in a row, all.

    A gradient is too large if its square overflows: a second moment would be infinite from then on. The check
    runs on the gradients' device, so the host need not wait, unless the optimizer's kernel ignores
    the result. Once the watch has halted, the weights stay those of the last good update.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        is_fused = optimizer.defaults.get("fused")
        self._optimizer = optimizer
        self._must_wait = not (is_fused and skips_if_told(type(optimizer), device))  # type: ignore[arg-type]
        self._counts = torch.zeros(3, dtype=torch.int64, device=device)

    def update(self, buffer: Tensor, step: int) -> None:
        """Step the optimizer if all of `buffer`, its gradients, and the sum of its squares are finite."""
        in_row, skipped, halted_at = self._counts.clone().unbind()
        bad = (~torch.linalg.vector_norm(buffer).isfinite()).long()
        halted = (halted_at > 0).long()
        in_row = (in_row + 1) * bad
        halted_at = torch.where((halted == 0) & (in_row >= MOST_SKIPPED_IN_A_ROW), step, halted_at)
        self._counts.copy_(torch.stack((in_row, skipped + bad, halted_at)))
        # If this is 1, the fused kernel leaves weights, moments and its step count unchanged.
        skips = torch.maximum(bad, halted).float()
        if not self._must_wait:
            step_unless(skips, self._optimizer)
        elif not skips:
            self._optimizer.step()

    def counts(self) -> list[int]:
        """Updates skipped in a row, skipped in total, and the step of the halt or 0; waits for the device."""
        counts: list[int] = self._counts.tolist()
        return counts

    def restore(self, counts: list[int]) -> None:
        """Continue from the result of `counts`."""
        self._counts.copy_(torch.tensor(counts))
