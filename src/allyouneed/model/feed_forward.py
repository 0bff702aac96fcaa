"""The position-wise feed-forward network (paper 3.3): `FFN(x) = max(0, x W1 + b1) W2 + b2`."""

from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.model.dropout import Dropout


class FeedForward(nn.Module):
    """Equation 2, applied identically to each position."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Two linear maps with a ReLU between them."""
        outer: Tensor = self.outer(self.dropout(self.inner(x).relu()))
        return outer
