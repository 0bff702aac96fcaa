"""The position-wise feed-forward network (paper 3.3): `FFN(x) = max(0, x W1 + b1) W2 + b2`."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "swish": functional.silu,
}
"""`ModelConfig.activation` -> the function between the two maps."""


class FeedForward(nn.Module):
    """Equation 2, applied identically to each position, or with another activation in place of the ReLU."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: str = "relu") -> None:
        super().__init__()
        self.activate = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Two linear maps with the activation between them."""
        outer: Tensor = self.outer(self.dropout(self.activate(self.inner(x))))
        return outer
