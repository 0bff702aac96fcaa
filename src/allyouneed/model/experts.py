"""A sparsely gated mixture of experts (Shazeer et al. 2017) in place of a feed-forward network."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.dropout import Dropout, generator

_SMALL = 1e-10
"""Keeps a quotient finite, as in the authors' code."""


class AuxiliaryLoss:
    """Base of modules that add a `_loss` to the loss on tokens in training, in nats per target token."""

    _loss: Tensor | None = None

    def take_loss(self) -> Float[Tensor, ""] | None:
        """Return the loss of the last forward pass in training, and release it together with its graph."""
        loss, self._loss = self._loss, None
        return loss


class Experts(AuxiliaryLoss, nn.Module):
    """`sum_i G(x)_i E_i(x)` over the experts with the k largest gates (equation 1 there).

    The gates are `softmax(KeepTopK(H(x), k))`, in training with the noise of equation 4:
    `H(x)_i = (x W_g)_i + N(0, 1) softplus((x W_noise)_i)`. To keep all experts in use, the loss includes the
    squared coefficients of variation of the gates' sums over the tokens (importance, equation 6) and of the
    expected numbers of tokens (load, equation 10). An expert is a network with one hidden layer and a ReLU.

    Deviations: there is one level of gates, not two; experts have no biases; no sigmoid follows the sum;
    padding, a few percent of a batch, counts in both losses.

    Args:
        d_model: Width of the input and the output.
        d_ff: Width inside an expert.
        num_experts: Number of experts, n.
        per_token: Number of experts per token, k; less than n.
        balance: Weight of each of the two losses, w_importance and w_load.
        dropout: Dropout rate inside an expert.
    """

    def __init__(
        self, d_model: int, d_ff: int, num_experts: int, per_token: int, balance: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.per_token, self.balance = per_token, balance
        self.gate = nn.Parameter(torch.empty(num_experts, d_model))
        self.noise = nn.Parameter(torch.empty(num_experts, d_model))
        self.inner = nn.Parameter(torch.empty(num_experts, d_model, d_ff))
        self.outer = nn.Parameter(torch.empty(num_experts, d_ff, d_model))
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Each position's mixture of the outputs of its experts."""
        rows = x.flatten(0, -2)
        clean = self._compared(rows, self.gate)
        if not self.training:
            values, chosen = clean.topk(self.per_token)
            return self._mixed(rows, values.softmax(dim=-1), chosen).view(x.shape)
        deviation = functional.softplus(self._compared(rows, self.noise))
        noise = torch.empty_like(clean).normal_(generator=generator())
        noisy = clean + noise * deviation
        values, places = noisy.topk(self.per_token + 1)
        weights, chosen = values[:, :-1].softmax(dim=-1), places[:, :-1]
        importance = torch.zeros_like(clean).scatter(1, chosen, weights).sum(0)
        load = chosen_with_probability(clean, noisy, deviation, values).sum(0)
        self._loss = self.balance * (squared_variation(importance) + squared_variation(load))
        return self._mixed(rows, weights, chosen).view(x.shape)

    def draw(self) -> None:
        """Draw the experts' matrices Glorot uniform; set gates and their noise to zero (appendix A there)."""
        nn.init.zeros_(self.gate)
        nn.init.zeros_(self.noise)
        for matrix in (*self.inner, *self.outer):
            nn.init.xavier_uniform_(matrix)

    def _compared(
        self, rows: Float[Tensor, "tokens d_model"], gates: Float[Tensor, "experts d_model"]
    ) -> Float[Tensor, "tokens experts"]:
        """Products in float32 or wider, so that rounding to bfloat16 cannot affect the choice of experts."""
        wide = torch.promote_types(gates.dtype, torch.float32)
        with torch.autocast(rows.device.type, enabled=False):
            return functional.linear(rows.to(wide), gates.to(wide))

    def _mixed(self, rows: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Compute all tokens of each expert at once; wait for an accelerator to learn how many each has."""
        if not len(rows):
            return rows
        numbers = chosen.flatten()
        order = numbers.argsort(stable=True)  # (tokens * per_token), by expert
        none = numbers.new_zeros(len(self.inner))
        counts: list[int] = none.scatter_add(0, numbers, torch.ones_like(numbers)).tolist()
        inner, outer = self.inner.unbind(), self.outer.unbind()
        outputs = torch.cat(
            [
                self.dropout((part @ inner[i]).relu()) @ outer[i]
                for i, part in enumerate(rows[order // self.per_token].split(counts))
                if counts[i]
            ]
        )
        by_token = outputs[order.argsort()].unflatten(0, chosen.shape)  # (tokens, per_token, d_model)
        mixed: Tensor = (weights.to(by_token.dtype)[:, :, None] * by_token).sum(1)
        return mixed


def chosen_with_probability(
    clean: Float[Tensor, "tokens experts"],
    noisy: Float[Tensor, "tokens experts"],
    deviation: Float[Tensor, "tokens experts"],
    largest: Float[Tensor, "tokens more_than_chosen"],
) -> Float[Tensor, "tokens experts"]:
    """The probability that an expert is chosen if its noise alone is drawn again (equation 9).

    Args:
        clean: `x W_g`.
        noisy: `clean` plus noise.
        deviation: Standard deviation of the noise.
        largest: The k + 1 largest of `noisy`, in order.
    """
    is_chosen: Bool[Tensor, "tokens experts"] = noisy > largest[:, -1:]
    # To be chosen, an expert must exceed the k-th largest of the others.
    threshold = torch.where(is_chosen, largest[:, -1:], largest[:, -2:-1])
    probability: Tensor = torch.special.ndtr((clean - threshold) / (deviation + _SMALL))
    return probability


def squared_variation(values: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """The square of the coefficient of variation: variance over squared mean."""
    return values.var(correction=0) / (values.mean() ** 2 + _SMALL)
