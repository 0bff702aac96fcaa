"""The layer types of Table 1 (section 4): how each is built, and the orders of its cost and of its paths."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allyouneed.lab.paper.layer_measurements import Stack
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    ConvolutionalLayer,
    FullSelfAttention,
    FullyConnected,
    PositionWise,
    RecurrentLayer,
    RestrictedSelfAttention,
    SeparableConvolutional,
)

K, R = 3, 128
"""Kernel width k and neighbourhood size r for the measurements of cost."""
CONNECTED_R, CONNECTED_N = 8, 64
"""Neighbourhood size r and length n for the path lengths: small enough to draw."""
BATCH, WIDTH = 4, 256
"""Number of sequences, and their width d, when lengths are compared."""


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1."""

    name: str
    what: str
    orders: tuple[str, str, str, str]
    """The table's orders: complexity, sequential operations, maximum path length, and its draft's size of the
    receptive field."""
    build: Callable[[int, int], ComparedLayer]
    """Makes the layer whose cost is measured, from n and d."""
    complexity: Callable[[float, float], float]
    """The table's complexity, as a function of n and d."""
    path: Callable[[int], float]
    """The table's maximum path length, as a function of n."""
    lengths: Sequence[int] = (256, 512, 1_024, 2_048)
    widths: Sequence[int] = (256, 512, 1_024)
    batch: int = BATCH
    width_of_lengths: int = WIDTH
    length_of_widths: int = 256
    sequential: int = 0
    """The table's sequential operations per additional position."""
    connected: Stack | None = None
    """Makes the layers whose paths are counted; by default copies of the one whose cost is measured."""

    def receptive_field(self, n: int) -> int:
        """The draft's size of the receptive field at a length, with `CONNECTED_R` for r."""
        return {"n": n, "k": K, "r": CONNECTED_R, "1": 1}[self.orders[3]]

    @property
    def stack(self) -> Stack:
        """Makes the layers whose paths are counted."""
        return self.connected or (lambda n, d, place: self.build(n, d))


def _sides(reach: float) -> Callable[[int], float]:
    """Number of layers for information to cross the sequence at `reach` positions per layer, rounded up."""
    return lambda n: math.ceil((n - 1) / reach)


def _dilated_layers(n: int) -> float:
    """Number of layers, log_k(n) rounded up: L layers of dilations 1, k, k^2, .. see k^L positions."""
    return next(layers for layers in range(64) if K**layers >= n)


TYPES = [
    LayerType(
        "self_attention",
        "self-attention",
        ("n² · d", "1", "1", "n"),
        lambda n, d: FullSelfAttention(d),
        lambda n, d: n**2 * d,
        lambda n: 1,
        length_of_widths=512,
    ),
    LayerType(
        "recurrent",
        "recurrent (LSTM)",
        ("n · d²", "n", "n", "n"),
        lambda n, d: RecurrentLayer(d),
        lambda n, d: n * d**2,
        lambda n: n,
        widths=(128, 256, 512, 1_024),  # weights outgrow one cache after another: the slope spans all caches
        length_of_widths=128,
        sequential=1,
    ),
    LayerType(
        "convolutional",
        "convolutional",
        ("k · n · d²", "1", "n / k", "k"),
        lambda n, d: ConvolutionalLayer(d, K),
        lambda n, d: K * n * d**2,
        _sides(K - 1),
    ),
    LayerType(
        "dilated",
        "convolutional, dilated",
        ("k · n · d²", "1", "log_k n", "k"),
        lambda n, d: ConvolutionalLayer(d, K),
        lambda n, d: K * n * d**2,
        _dilated_layers,
        connected=lambda n, d, place: ConvolutionalLayer(d, K, K**place),
    ),
    LayerType(
        "restricted",
        "self-attention (restricted)",
        ("r · n · d", "1", "n / r", "r"),
        lambda n, d: RestrictedSelfAttention(d, R),
        lambda n, d: R * n * d,
        _sides(CONNECTED_R / 2),
        widths=(128, 256, 512, 1_024),
        length_of_widths=512,
        connected=lambda n, d, place: RestrictedSelfAttention(d, CONNECTED_R),
    ),
    LayerType(
        "separable",
        "convolutional (separable), dilated",
        ("k · n · d + n · d²", "1", "log_k n", "k"),
        lambda n, d: SeparableConvolutional(d, K),
        lambda n, d: K * n * d + n * d**2,
        _dilated_layers,
        widths=(512, 1_024, 2_048),
        connected=lambda n, d, place: SeparableConvolutional(d, K, K**place),
    ),
    LayerType(
        "position_wise",
        "position-wise feed-forward",
        ("n · d²", "1", "∞", "1"),
        lambda n, d: PositionWise(d),
        lambda n, d: n * d**2,
        lambda n: math.inf,
    ),
    LayerType(
        "fully_connected",
        "fully connected",
        ("n² · d²", "1", "1", "n"),
        lambda n, d: FullyConnected(d, n),
        lambda n, d: n**2 * d**2,
        lambda n: 1,
        lengths=(96, 128, 192),  # smaller weights fit into a cache
        widths=(96, 128, 192),
        batch=64,
        width_of_lengths=32,
        length_of_widths=32,
    ),
]
"""Self-attention, the baseline, comes first. The last three are commented out in the paper's
source; contiguous convolutions are in its text."""
