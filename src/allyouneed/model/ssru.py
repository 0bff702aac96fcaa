"""The simpler simple recurrent unit (SSRU; Kim et al. 2019), which takes the place of self-attention.

It reads the output so far in constant time and memory per token: `c_t = f_t c_(t-1) + (1 - f_t) W x_t` with
the forget gate `f_t = sigmoid(W_f x_t + b_f)`, and gives `relu(c_t)`. Marian's small students use it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.masks import ImplicitMask


class SSRU(nn.Module):
    """A recurrent unit of width d_model over the positions of each sentence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.candidate = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        mask: Bool[Tensor, "#batch 1 #target_len target_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """The outputs of all positions; sentences may be packed, as told by the positions of `mask`."""
        forget, added = self._gates(x)
        if isinstance(mask, ImplicitMask):
            forget = forget.masked_fill((mask.positions().query == 0)[..., None], 0)
        return functional.relu(_scan(forget, added)).to(x.dtype)

    def step(
        self, x: Float[Tensor, "*rows d_model"], cell: Float[Tensor, "*rows d_model"]
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, "*rows d_model"]]:
        """The output of one more position, and its cell, which the next one needs; the first has zeros."""
        forget, added = self._gates(x)
        cell = forget * cell + added
        return functional.relu(cell).to(x.dtype), cell

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f_t and (1 - f_t) W x_t, at least in float32, as a cell sums over many positions."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        forget = torch.sigmoid(self.forget(x).to(dtype))
        return forget, (1 - forget) * self.candidate(x).to(dtype)


def _scan(
    forget: Float[Tensor, "batch length width"], added: Float[Tensor, "batch length width"]
) -> Float[Tensor, "batch length width"]:
    """All c_t of `c_t = forget_t c_(t-1) + added_t`, in log2(length) steps (Hillis and Steele 1986)."""
    offset = 1
    while offset < added.size(1):
        # Until here, entry t covers the last `offset` positions up to t.
        added = added + forget * _later(added, offset)
        forget = forget * _later(forget, offset)
        offset *= 2
    return added


def _later(x: Tensor, offset: int) -> Tensor:
    """`x` moved to later positions, with zeros before them."""
    return functional.pad(x[:, :-offset], (0, 0, offset, 0))
