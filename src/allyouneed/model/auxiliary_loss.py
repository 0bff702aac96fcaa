"""What parts of a model want to have minimised beside the loss on tokens."""

from jaxtyping import Float
from torch import Tensor


class AuxiliaryLoss:
    """For modules that set `_loss` in each forward pass in training: in nats a target token of the batch."""

    _loss: Tensor | None = None

    def take_loss(self) -> Float[Tensor, ""] | None:
        """The loss of the last forward pass in training, which is forgotten with all it was computed from."""
        loss, self._loss = self._loss, None
        return loss
