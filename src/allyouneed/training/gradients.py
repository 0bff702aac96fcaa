"""The gradient of an update in one piece, and the watch that keeps what is not finite from the weights."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

MOST_SKIPPED_IN_A_ROW = 3
"""After so many updates in a row that were skipped, a run is given up."""

_ALIGNMENT = 16


class Gradients:
    """The gradients of all parameters and the loss, side by side in one buffer.

    So one sum over the processes is enough, and one look whether all is finite. Parameters' `grad` are
    views of it: backward passes add to them, and they must not be replaced.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        # Every view begins where vector instructions like it.
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in parameters]
        self.buffer = torch.zeros(sum(sizes) + 1, dtype=parameters[0].dtype, device=parameters[0].device)
        *pieces, loss = self.buffer.split([*sizes, 1])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece[: parameter.numel()].view_as(parameter)
        self.loss = loss[0]
        """The sum of the losses of the batch so far, in nats: a scalar view."""

    def clear(self) -> None:
        """Begin the next update."""
        self.buffer.zero_()


class FiniteWatch:
    """Makes Adam skip an update whose gradient or loss is not finite; for good, after three in a row.

    All of it happens on the gradients' device. The host may look whenever it likes: once the watch has
    halted, the weights stay those of the last good update.
    """

    def __init__(self, optimizer: torch.optim.Adam, device: torch.device) -> None:
        self._optimizer = optimizer
        self._counts = torch.zeros(3, dtype=torch.float64, device=device)

    def inspect(self, buffer: Tensor, step: int) -> None:
        """Let the next update of the optimizer happen only if all of `buffer` is finite."""
        in_row, skipped, halted_at = self._counts.clone().unbind()
        bad = (~buffer.sum().isfinite()).double()
        halted = (halted_at > 0).double()
        in_row = (in_row + 1) * bad
        halted_at = torch.where((halted == 0) & (in_row >= MOST_SKIPPED_IN_A_ROW), float(step), halted_at)
        self._counts.copy_(torch.stack((in_row, skipped + bad, halted_at)))
        # The fused kernel leaves weights, moments and its count of steps alone where this is 1.
        self._optimizer.found_inf = torch.maximum(bad, halted).float()  # type: ignore[attr-defined]
        self._optimizer.grad_scale = None  # type: ignore[attr-defined]

    def counts(self) -> list[int]:
        """Skipped in a row, skipped in all, and the step at which it halted or 0; waits for the device."""
        return [int(count) for count in self._counts.tolist()]

    def restore(self, counts: list[int]) -> None:
        """Go on from what `counts` returned."""
        self._counts.copy_(torch.tensor(counts, dtype=torch.float64))
