"""The layers of Table 1 (paper 4) with one interface: the core that the table counts, and what is around.

`n` is the length and `d` the width of a sequence, `k` the width of a kernel, `r` the size of a neighbourhood.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.attention import SelfAttention, fused_attention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddAndNorm
from allyouneed.model.neighbourhood import NeighbourhoodMask

_HEAD_WIDTH = 64
_EPSILON = 1e-6


class ComparedLayer(nn.Module, ABC):
    """A layer from n vectors to n vectors: `LayerNorm(x + output(core(inputs(x))))`, as sub-layers are (3.1).

    The core is what Table 1 counts; `inputs` and `output` are what it needs at each position besides.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.around = AddAndNorm(d, 0.0, _EPSILON)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """What the core takes."""
        return (x,)

    @abstractmethod
    def core(self, *inputs: Tensor) -> Tensor:
        """What the layer is called after."""

    def output(self, found: Tensor) -> Float[Tensor, "batch n d"]:
        """What the core has found, as vectors again."""
        return found

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The whole layer."""
        whole: Tensor = self.around(x, lambda x: self.output(self.core(*self.inputs(x))))
        return whole

    def after_rounds(
        self, x: Float[Tensor, "batch n d"], above: "Sequence[ComparedLayer]"
    ) -> Float[Tensor, "batch n d"]:
        """What positions have after a round of this layer, and one for each of those above it.

        In a round every position does at once what the layer does at a position. Of layers that do all in
        one operation that is the whole layer, and the next round is the layer above.
        """
        for layer in (self, *above):
            x = layer(x)
        return x


class FullSelfAttention(ComparedLayer):
    """Equation 1 in heads of 64, to all positions: n^2 d."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        width = min(d, _HEAD_WIDTH)
        self.attention = SelfAttention(d, d // width, width, width, bias=True)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """Queries, keys and values of every head."""
        return tuple(self.attention.project(x))

    def core(self, *inputs: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch heads n d_k"]:
        """Equation 1, by the fastest kernel that PyTorch has for it."""
        query, key, value = inputs
        return functional.scaled_dot_product_attention(query, key, value)

    def output(self, found: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch n d"]:
        """The heads, joined and projected."""
        return self.attention.join(found)


class RestrictedSelfAttention(FullSelfAttention):
    """The same, to a neighbourhood of r around each position: r n d."""

    def __init__(self, d: int, r: int) -> None:
        super().__init__(d)
        self.r = r

    def core(self, *inputs: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch heads n d_k"]:
        """Equation 1, by blocks of neighbours."""
        query, key, value = inputs
        real = torch.ones(query.size(0), query.size(2), dtype=torch.bool, device=query.device)
        return fused_attention(query, key, value, NeighbourhoodMask(real, self.r // 2))


class Recurrent(ComparedLayer):
    """An LSTM (Hochreiter and Schmidhuber 1997), whose cell takes one position after the other: n d^2."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.lstm = nn.LSTM(d, d, batch_first=True)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The states after each position."""
        [x] = inputs
        states: Tensor = self.lstm(x)[0]
        return states

    def after_rounds(
        self, x: Float[Tensor, "batch n d"], above: Sequence[ComparedLayer]
    ) -> Float[Tensor, "batch n d"]:
        """The states of this layer if in each round the cells of all positions are computed at once.

        Each cell takes the state that the position before had in the round before, which is nothing at first:
        after n rounds these are the states of `core`. The layers above have nothing to do before that.
        """
        hidden = cell = torch.zeros_like(x)
        for _ in (self, *above):
            before = (functional.pad(state[:, :-1], (0, 0, 1, 0)).flatten(0, 1) for state in (hidden, cell))
            found = torch.lstm_cell(x.flatten(0, 1), tuple(before), *self.lstm.all_weights[0])
            hidden, cell = (state.view_as(x) for state in found)
        return hidden


class Convolutional(ComparedLayer):
    """A convolution of k positions up to each, or of k that are `dilation` apart, then ReLU: k n d^2.

    It looks back alone, as in the decoders of ByteNet and ConvS2S; around a position, dilated ones would
    leave out what they reach only by a detour beyond the ends.
    """

    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__(d)
        self.convolution: nn.Module = nn.Conv1d(d, d, k, dilation=dilation)
        self.back = dilation * (k - 1)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """Channels first, as PyTorch has them, with zeros before the first position."""
        return (functional.pad(x.transpose(1, 2), (self.back, 0)),)

    def core(self, *inputs: Float[Tensor, "batch d padded"]) -> Float[Tensor, "batch d n"]:
        """The convolution."""
        convolved: Tensor = self.convolution(*inputs)
        return convolved

    def output(self, found: Float[Tensor, "batch d n"]) -> Float[Tensor, "batch n d"]:
        """The rectified linear unit."""
        return found.relu().transpose(1, 2)


class SeparableConvolutional(Convolutional):
    """A convolution of each channel alone, then a product at each position: k n d + n d^2 (Chollet 2016)."""

    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__(d, k, dilation)
        of_each = nn.Conv1d(d, d, k, dilation=dilation, groups=d)
        self.convolution = nn.Sequential(of_each, nn.Conv1d(d, d, 1))


class PositionWise(ComparedLayer):
    """The feed-forward network of 3.3, in which no position meets another: n d^2."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.network = FeedForward(d, 4 * d)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """Equation 2."""
        found: Tensor = self.network(*inputs)
        return found


class FullyConnected(ComparedLayer):
    """One matrix from all numbers of all positions to all: n^2 d^2; it is made for one length."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__(d)
        self.matrix = nn.Linear(n * d, n * d)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The product."""
        [x] = inputs
        found: Tensor = self.matrix(x.flatten(1)).view_as(x)
        return found

    def output(self, found: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The rectified linear unit."""
        return found.relu()
