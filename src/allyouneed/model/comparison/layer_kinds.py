"""The layers of Table 1 (paper 4) behind one interface, which separates the core that the table counts.

`n` is the length and `d` the width of a sequence, `k` the width of a kernel, `r` the size of a neighbourhood.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import Reach
from allyouneed.model.attention import SelfAttention, fused_attention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddAndNorm
from allyouneed.model.neighbourhood import NeighbourhoodMask

_HEAD_WIDTH = 64
_EPSILON = 1e-6


class ComparedLayer(nn.Module, ABC):
    """A layer from n vectors to n vectors: `LayerNorm(x + output(core(inputs(x))))`, like a sub-layer (3.1).

    Table 1 counts the core only; `inputs` and `output` are the work before and after it at each position.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.around = AddAndNorm(d, 0.0, _EPSILON)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """Compute the inputs of the core."""
        return (x,)

    @abstractmethod
    def core(self, *inputs: Tensor) -> Tensor:
        """The operation that gives the layer its name."""

    def output(self, found: Tensor) -> Float[Tensor, "batch n d"]:
        """Turn the result of the core into n vectors again."""
        return found

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The whole layer."""
        whole: Tensor = self.around(x, lambda x: self.output(self.core(*self.inputs(x))))
        return whole

    def after_rounds(
        self, x: Float[Tensor, "batch n d"], above: "Sequence[ComparedLayer]"
    ) -> Float[Tensor, "batch n d"]:
        """The vectors after one round of this layer and one more for each layer above it.

        A round computes all positions at once. Most layers are complete after one round, so that the next
        round computes the layer above.
        """
        for layer in (self, *above):
            x = layer(x)
        return x


class FullSelfAttention(ComparedLayer):
    """Self-attention to all positions, by default in heads of width 64: n^2 d."""

    def __init__(self, d: int, num_heads: int | None = None) -> None:
        super().__init__(d)
        heads = num_heads or max(1, d // _HEAD_WIDTH)
        self.attention = SelfAttention(d, heads, d // heads, d // heads, bias=True)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """Queries, keys and values of every head."""
        return tuple(self.attention.project(x))

    def core(self, *inputs: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch heads n d_k"]:
        """Equation 1, by PyTorch's fastest kernel."""
        query, key, value = inputs
        return functional.scaled_dot_product_attention(query, key, value)

    def output(self, found: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch n d"]:
        """The heads, joined and projected."""
        return self.attention.join(found)


class RestrictedSelfAttention(FullSelfAttention):
    """Self-attention to a neighbourhood of r positions around each position, itself included: r n d."""

    def __init__(self, d: int, r: int, num_heads: int | None = None) -> None:
        super().__init__(d, num_heads)
        self.r = r

    def core(self, *inputs: Float[Tensor, "batch heads n d_k"]) -> Float[Tensor, "batch heads n d_k"]:
        """Equation 1, in blocks of neighbouring positions."""
        query, key, value = inputs
        real = torch.ones(query.size(0), query.size(2), dtype=torch.bool, device=query.device)
        return fused_attention(query, key, value, NeighbourhoodMask(real, Reach.around(self.r)))


class RecurrentLayer(ComparedLayer):
    """An LSTM (Hochreiter and Schmidhuber 1997), which computes one position after another: n d^2."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.lstm = nn.LSTM(d, d, batch_first=True)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The state after each position."""
        [x] = inputs
        states: Tensor = self.lstm(x)[0]
        return states

    def after_rounds(
        self, x: Float[Tensor, "batch n d"], above: Sequence[ComparedLayer]
    ) -> Float[Tensor, "batch n d"]:
        """The states of this layer when each round computes the cells of all positions at once.

        Each cell reads the state that the previous position had in the previous round, at first zeros: after
        n rounds the states equal those of `core`. The layers above cannot start before that.
        """
        hidden = cell = torch.zeros_like(x)
        for _ in (self, *above):
            before = (functional.pad(state[:, :-1], (0, 0, 1, 0)).flatten(0, 1) for state in (hidden, cell))
            found = torch.lstm_cell(x.flatten(0, 1), tuple(before), *self.lstm.all_weights[0])
            hidden, cell = (state.view_as(x) for state in found)
        return hidden


class ConvolutionalLayer(ComparedLayer):
    """A causal convolution over k positions that are `dilation` apart, then ReLU: k n d^2.

    It only looks back, as in the decoders of ByteNet and ConvS2S. Centred dilated convolutions would miss
    positions that they reach only by a detour beyond the ends.
    """

    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__(d)
        self.convolution: nn.Module = nn.Conv1d(d, d, k, dilation=dilation)
        self.back = dilation * (k - 1)

    def inputs(self, x: Float[Tensor, "batch n d"]) -> tuple[Tensor, ...]:
        """The vectors, channels first as PyTorch expects, with zeros before the first position."""
        return (functional.pad(x.transpose(1, 2), (self.back, 0)),)

    def core(self, *inputs: Float[Tensor, "batch d padded"]) -> Float[Tensor, "batch d n"]:
        """The convolution."""
        convolved: Tensor = self.convolution(*inputs)
        return convolved

    def output(self, found: Float[Tensor, "batch d n"]) -> Float[Tensor, "batch n d"]:
        """The rectified linear unit."""
        return found.relu().transpose(1, 2)


class SeparableConvolutional(ConvolutionalLayer):
    """A convolution of each channel, then a linear map of each position: k n d + n d^2 (Chollet 2016)."""

    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__(d, k, dilation)
        of_each = nn.Conv1d(d, d, k, dilation=dilation, groups=d)
        self.convolution = nn.Sequential(of_each, nn.Conv1d(d, d, 1))


class PositionWise(ComparedLayer):
    """The feed-forward network of 3.3, which treats each position separately: n d^2."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.network = FeedForward(d, 4 * d)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """Equation 2."""
        found: Tensor = self.network(*inputs)
        return found


class FullyConnected(ComparedLayer):
    """One linear map of all numbers of all positions, for sequences of one length: n^2 d^2."""

    def __init__(self, d: int, n: int) -> None:
        super().__init__(d)
        self.matrix = nn.Linear(n * d, n * d)

    def core(self, *inputs: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The linear map."""
        [x] = inputs
        found: Tensor = self.matrix(x.flatten(1)).view_as(x)
        return found

    def output(self, found: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """The rectified linear unit."""
        return found.relu()
