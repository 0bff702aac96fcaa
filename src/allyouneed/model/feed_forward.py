"""The position-wise feed-forward network (paper 3.3), and attention over parameters in its place."""

import math
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


class AttentionOverParameters(nn.Module):
    """Multi-head attention (3.2.2) whose keys and values are parameters, times sqrt(d_model); no biases.

    With ReLU in place of the softmax, and one head, it is equation 2: W1 holds the keys, W2 the values.

    Args:
        d_model: Width of the input and the output.
        num_heads: Number of heads, h_p.
        d_k: Width of a key, d_pk.
        d_v: Width of a value, d_pv.
        num_pairs: Number of key-value pairs per head, n_p.
        dropout: Dropout rate of a head's values, each dropped for all positions at once, as in the authors'
            code of 2017.
    """

    def __init__(
        self, d_model: int, num_heads: int, d_k: int, d_v: int, num_pairs: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_heads, self.d_k = num_heads, d_k
        self.query = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.keys = nn.Parameter(torch.empty(num_heads, num_pairs, d_k))
        self.values = nn.Parameter(torch.empty(num_heads, num_pairs, d_v))
        self.output = nn.Linear(num_heads * d_v, d_model, bias=False)
        self.scale = math.sqrt(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Each position's mixture of the values; equal inputs give equal outputs."""
        rows = self.query(x).view(-1, self.num_heads, self.d_k).transpose(0, 1)  # (heads, positions, d_k)
        keys, values = self.keys * self.scale, self.values * self.scale
        kept = self.dropout(values.new_ones(*values.shape[:2], 1))
        weights = (rows / math.sqrt(self.d_k) @ keys.transpose(-2, -1)).softmax(dim=-1)
        mixed = weights.to(values.dtype) @ (values * kept)  # (heads, positions, d_v)
        output: Tensor = self.output(mixed.transpose(0, 1).reshape(*x.shape[:-1], self.output.in_features))
        return output
