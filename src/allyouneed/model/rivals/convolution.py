"""Convolutions over positions: over a whole sequence at once, or step by step."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Convolution(nn.Module):
    """`y_t = b + sum_j W_j x_(t - j dilation)`, with j from 0 if causal, else centred on t.

    Inputs beyond either end are zero. With width 1 it is a linear map of each position.

    Args:
        d_in: Width of the input.
        d_out: Width of the output.
        width: Number of input positions that an output sees.
        dilation: Distance between these positions.
        causal: Whether an output sees no later position.
    """

    frozen: Tensor | None

    def __init__(
        self, d_in: int, d_out: int, width: int = 1, dilation: int = 1, *, causal: bool = False
    ) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(d_out, d_in, width))
        self.bias = nn.Parameter(torch.empty(d_out))
        self.dilation, self.causal = dilation, causal
        self.reach = dilation * (width - 1)
        """Distance between the first and the last position that an output sees."""
        self.register_buffer("frozen", None, persistent=False)

    @property
    def weight(self) -> Float[Tensor, "d_out d_in width"]:
        """The weight of the convolution, cached after `freeze`."""
        return self._weight() if self.frozen is None else self.frozen

    def freeze(self) -> None:
        """Cache the weight, which must not change again; if causal, in a layout that spares `step` a copy."""
        weight = self._weight().detach()
        self.frozen = weight.transpose(1, 2).contiguous().transpose(1, 2) if self.causal else weight

    def forward(self, x: Float[Tensor, "batch length d_in"]) -> Float[Tensor, "batch length d_out"]:
        """The outputs at all positions."""
        if not self.reach:
            return functional.linear(x, self.weight[..., 0], self.bias)
        before = self.reach if self.causal else self.reach // 2
        padded, length = functional.pad(x, (0, 0, before, self.reach - before)), x.size(1)
        starts = range(0, self.reach + 1, self.dilation)
        return self._of_taps(torch.cat([padded[:, start : start + length] for start in starts], dim=-1))

    def draw(self) -> None:
        """Draw the weights Glorot uniform, with biases of 0."""
        nn.init.xavier_uniform_(self.direction)
        nn.init.zeros_(self.bias)

    def first_window(self, num_sentences: int, beam_size: int) -> Float[Tensor, "sentences beams reach d_in"]:
        """The inputs before the first position: zeros."""
        return self.direction.new_zeros(num_sentences, beam_size, self.reach, self.direction.size(1))

    def step(
        self, x: Float[Tensor, "sentences beams d_in"], window: Float[Tensor, "sentences beams reach d_in"]
    ) -> tuple[Float[Tensor, "sentences beams d_out"], Float[Tensor, "sentences beams reach d_in"]]:
        """The output at the position of `x`, and the window for the next position."""
        seen = torch.cat([window, x[:, :, None]], dim=2)
        return self._of_taps(seen[:, :, :: self.dilation].flatten(2)), seen[:, :, 1:]

    def _of_taps(self, taps: Float[Tensor, "*shape width_x_d_in"]) -> Float[Tensor, "*shape d_out"]:
        """Outputs from the concatenated inputs that each of them sees, in one matrix product."""
        return functional.linear(taps, self.weight.transpose(1, 2).flatten(1), self.bias)

    def _weight(self) -> Float[Tensor, "d_out d_in width"]:
        return self.direction


class NormalisedConvolution(Convolution):
    """A convolution with weight normalisation: `w = g v / |v|` for each output (Salimans and Kingma 2016).

    Args:
        d_in: Width of the input.
        d_out: Width of the output.
        width: Number of input positions that an output sees.
        gain: Gain of the variance: 4 before a gated linear unit, which passes a quarter of it.
        dropout: Dropout rate of the input, which raises its variance.
        causal: Whether an output sees no later position.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        width: int = 1,
        *,
        gain: float = 1.0,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__(d_in, d_out, width, causal=causal)
        self.magnitude = nn.Parameter(torch.empty(d_out))
        self._deviation = math.sqrt(gain * (1 - dropout) / (width * d_in))

    def draw(self) -> None:
        """Draw weights that preserve the input's variance (Gehring et al. 2017, 3.5), with biases of 0."""
        nn.init.normal_(self.direction, std=self._deviation)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.magnitude.copy_(self._norms())

    def _weight(self) -> Float[Tensor, "d_out d_in width"]:
        return self.direction * (self.magnitude / self._norms())[:, None, None]

    def _norms(self) -> Float[Tensor, " d_out"]:
        norms: Tensor = self.direction.flatten(1).norm(dim=1)
        return norms
