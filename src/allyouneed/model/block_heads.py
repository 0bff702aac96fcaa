"""Heads that predict tokens after the next one, for blockwise decoding (Stern et al. 2018)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig
from allyouneed.model.dropout import Dropout
from allyouneed.model.feed_forward import FeedForward


class BlockHeads(nn.Module):
    """The predictors p_2 .. p_k of their section 4: head i predicts the token i places after the next one.

    Each is a feed-forward network (equation 2) with a residual connection, whose result is projected to the
    vocabulary as the hidden state itself is for the next token, by p_1. With k = 1 there are none.
    """

    # Deviation: theirs is one network with k d_ff units inside, which transforms p_1, too. For k = 6, it has
    # 1.8 times the products of the base model's decoder; ours, d_model units for each head, a tenth. Without
    # a network for p_1, greedy outputs stay what they were.
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            FeedForward(config.d_model, config.d_model) for _ in range(config.block - 1)
        )
        self.dropout = Dropout(config.dropout if len(self) else 0.0)

    def __len__(self) -> int:
        """Number of heads, k - 1."""
        return len(self.networks)

    def forward(self, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows heads d_model"]:
        """The states from which every head predicts."""
        return torch.stack([self.of_head(head, hidden) for head in range(len(self))], dim=-2)

    def of_head(self, head: int, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """The states from which one head predicts, from 0."""
        added: Tensor = self.dropout(self.networks[head](hidden))
        return hidden + added
