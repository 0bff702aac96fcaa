"""Losses that parts of a model add to the loss on tokens."""

from jaxtyping import Float
from torch import Tensor


class AuxiliaryLoss:
    """Base of modules that set `_loss` in each training pass, in nats per target token of the batch."""

    _loss: Tensor | None = None

    def take_loss(self) -> Float[Tensor, ""] | None:
        """Return the loss of the last forward pass in training, and release it together with its graph."""
        loss, self._loss = self._loss, None
        return loss
