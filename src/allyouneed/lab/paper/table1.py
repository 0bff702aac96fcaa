"""Table 1 (section 4) measured: the cost of each layer type, and how it connects positions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from allyouneed.lab.paper.experiment import PROCESSOR, Experiment, Figures, Results, Row, Work
from allyouneed.lab.paper.layer_costs import Cost, Size, crossing, exponent, measure
from allyouneed.lab.paper.layer_paths import Stack, path_length, reach_by_round, sequential_operations
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    Convolutional,
    FullSelfAttention,
    FullyConnected,
    PositionWise,
    Recurrent,
    RestrictedSelfAttention,
    SeparableConvolutional,
)

K, R = 3, 128
"""Kernel width k and neighbourhood size r for the measurements of cost."""
CONNECTED_R, CONNECTED_N = 8, 64
"""Neighbourhood size r and length n for the path lengths: small enough to draw."""
LENGTHS = (4, 8, 16, 32, 64)
QUICK = "quick"
"""The scale without each layer's largest sizes, measured in fewer rounds."""
BATCH, WIDTH = 4, 256
"""Number of sequences, and their width d, when lengths are compared."""
_NOTES = [
    "Exponents of n and d are fitted to the sizes in results.csv; the paper's are fitted to its formulas at "
    f"the same sizes, with k = {K} and r = {R}.",
    f"Paths and chains are counted at n = {CONNECTED_N}, with k = {K} and r = {CONNECTED_R}. The paper gives "
    "orders; its column shows the corresponding lengths: n, (n - 1) / (k - 1), log_k(n), (n - 1) / (r / 2), "
    "rounded up.",
    f"The n from which a layer is cheaper is found at d = {WIDTH}, between the measured sizes on logarithmic "
    "scales; the paper's column compares the formulas (for recurrent layers, n = d).",
    "`separable_k_is_n` tests the remark on separable convolutions: with a kernel as wide as the sequence, "
    "their complexity equals that of self-attention plus a position-wise layer.",
]


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1."""

    name: str
    what: str
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
        lambda n, d: FullSelfAttention(d),
        lambda n, d: n**2 * d,
        lambda n: 1,
        length_of_widths=512,
    ),
    LayerType(
        "recurrent",
        "recurrent (LSTM)",
        lambda n, d: Recurrent(d),
        lambda n, d: n * d**2,
        lambda n: n,
        widths=(128, 256, 512, 1_024),  # weights outgrow one cache after another: the slope spans all caches
        length_of_widths=128,
        sequential=1,
    ),
    LayerType(
        "convolutional",
        "convolutional",
        lambda n, d: Convolutional(d, K),
        lambda n, d: K * n * d**2,
        _sides(K - 1),
    ),
    LayerType(
        "dilated",
        "convolutional, dilated",
        lambda n, d: Convolutional(d, K),
        lambda n, d: K * n * d**2,
        _dilated_layers,
        connected=lambda n, d, place: Convolutional(d, K, K**place),
    ),
    LayerType(
        "restricted",
        "self-attention (restricted)",
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
        lambda n, d: SeparableConvolutional(d, K),
        lambda n, d: K * n * d + n * d**2,
        _dilated_layers,
        widths=(512, 1_024, 2_048),
        connected=lambda n, d, place: SeparableConvolutional(d, K, K**place),
    ),
    LayerType(
        "position_wise",
        "position-wise feed-forward",
        lambda n, d: PositionWise(d),
        lambda n, d: n * d**2,
        lambda n: math.inf,
    ),
    LayerType(
        "fully_connected",
        "fully connected",
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
"""Self-attention, the baseline, comes first; the last three appear in the paper's source only."""


def measured(layer: LayerType, work: Work) -> Mapping[str, Any]:
    """All figures of a layer type."""
    torch.manual_seed(work.seed)
    longer = SCALES["tiny"].narrower // work.scale.narrower
    by_n = [Size(layer.batch, longer * n, layer.width_of_lengths) for n in layer.lengths]
    by_d = [Size(layer.batch, layer.length_of_widths, d) for d in layer.widths]
    rounds = _num_rounds(work.scale)
    of_n, of_d = (measure(layer.build, sizes, work.device, rounds) for sizes in (by_n, by_d))
    ns, ds = [size.n for size in by_n], [size.d for size in by_d]
    chains = [sequential_operations(layer.stack, n) for n in (CONNECTED_N // 2, CONNECTED_N)]
    paths = [path_length(layer.stack, n) for n in LENGTHS]
    reached = reach_by_round(layer.stack, CONNECTED_N // 2)
    return {
        "time_n": exponent(ns, [cost.seconds for cost in of_n]),
        "time_d": exponent(ds, [cost.seconds for cost in of_d]),
        "flops_n": exponent(ns, [cost.flops for cost in of_n]),
        "flops_d": exponent(ds, [cost.flops for cost in of_d]),
        "memory_n": exponent(ns, [cost.bytes for cost in of_n]),
        "layer_n": exponent(ns, [cost.layer_seconds for cost in of_n]),
        "layer_d": exponent(ds, [cost.layer_seconds for cost in of_d]),
        "sequential": chains[1],
        "sequential_n": (chains[1] - chains[0]) / (CONNECTED_N // 2),
        "path": _number(paths[-1]),
        "by_n": _curve(by_n, of_n),
        "by_d": _curve(by_d, of_d),
        "paths": {"n": LENGTHS, "path": [_number(path) for path in paths]},
        # For pictures: per round and input position, a string with 1 for each output position it reaches.
        "reach": [["".join(str(int(x)) for x in row) for row in reach.tolist()] for reach in reached],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no infinity


def _curve(sizes: Sequence[Size], costs: Sequence[Cost]) -> dict[str, list[Any]]:
    points = [asdict(size) | asdict(cost) for size, cost in zip(sizes, costs, strict=True)]
    return {name: [point[name] for point in points] for name in points[0]}


def _paper(layer: LayerType) -> dict[str, float]:
    """The table's figures at the measured sizes."""
    n, d = [float(n) for n in layer.lengths], [float(d) for d in layer.widths]
    by_n = exponent(n, [layer.complexity(n, layer.width_of_lengths) for n in n])
    by_d = exponent(d, [layer.complexity(layer.length_of_widths, d) for d in d])
    figures = {
        "time_n": by_n,
        "time_d": by_d,
        "flops_n": by_n,
        "flops_d": by_d,
        "sequential_n": layer.sequential,
        "path": layer.path(CONNECTED_N),
    }
    if layer.width_of_lengths == WIDTH and layer.name != "self_attention":
        figures["cheaper_from"] = figures["cheaper_from_flops"] = layer.complexity(1, WIDTH) / WIDTH
    return {name: round(value, 2) for name, value in figures.items()}


def cheaper_from(own: Figures, of_attention: Figures) -> Figures:
    """The n above which a layer takes less time, or fewer FLOPs, than full self-attention."""
    curve, other = own.get("by_n"), of_attention.get("by_n")
    if not curve or not other or own is of_attention or curve["d"] != other["d"]:
        return {}
    found = {"cheaper_from_flops": crossing(curve["n"], curve["flops"], other["flops"])}
    if own.get(PROCESSOR) == of_attention.get(PROCESSOR):
        found["cheaper_from"] = crossing(curve["n"], curve["seconds"], other["seconds"])
    return {name: value for name, value in found.items() if value is not None}


def _remark(work: Work) -> Mapping[str, Any]:
    """Compare a separable convolution with k = n to self-attention plus a position-wise layer."""
    sizes = [Size(1, n, WIDTH) for n in (64, 128, 256, 512, 1_024)]
    kinds: list[Callable[[int, int], ComparedLayer]] = [
        lambda n, d: SeparableConvolutional(d, n),
        lambda n, d: FullSelfAttention(d),
        lambda n, d: PositionWise(d),
    ]
    separable, attention, network = (
        measure(build, sizes, work.device, _num_rounds(work.scale)) for build in kinds
    )
    together = [a.layer_flops + b.layer_flops for a, b in zip(attention, network, strict=True)]
    alone = [cost.layer_flops for cost in separable]
    n = [size.n for size in sizes]
    return {
        "flops_n": exponent(n, alone),
        "ratio_shortest": together[0] / alone[0],
        "ratio_longest": together[-1] / alone[-1],
        "k_is_n": {"n": n, "separable": alone, "attention_and_network": together},
    }


def _num_rounds(scale: Scale) -> int:
    return 3 if scale.name == QUICK else 15


def _types(scale: Scale) -> Sequence[LayerType]:
    if scale.name != QUICK:
        return TYPES
    return [replace(layer, lengths=layer.lengths[:-1], widths=layer.widths[:-1]) for layer in TYPES]


def _rows(scale: Scale) -> Sequence[Row]:
    rows = [Row(t.name, t.what, partial(measured, t), _paper(t), every_seed=False) for t in _types(scale)]
    return [*rows, Row("separable_k_is_n", "with k = n", _remark, every_seed=False)]


def _verdict(results: Results, counted: str) -> str:
    """How far the measured orders are from the paper's."""
    lengths, flops, time = (
        max(
            0.0 if value == row.paper[figure] else abs(value - row.paper[figure])
            for row in results.rows
            for figure in row.paper.keys() & names
            for value in results.values(row.name, figure) or [row.paper[figure]]
        )
        for names in ({"sequential_n", "path"}, {"flops_n", "flops_d"}, {"time_n", "time_d"})
    )
    hold = "hold" if max(lengths, flops, time) < 0.5 else "do not all hold"
    return (
        f"The paper's orders {hold}: path lengths and sequential operations are off by at most {lengths:g}, "
        f"exponents of n and d by at most {flops:.2f} in FLOPs and {time:.2f} in time."
    )


_FIGURES = (
    *("time_n", "time_d", "flops_n", "flops_d", "memory_n", "layer_n", "layer_d"),
    *("sequential", "sequential_n", "path"),
    *("cheaper_from", "cheaper_from_flops", "ratio_shortest", "ratio_longest"),
)

TABLE1 = Experiment(
    "table1",
    "Why self-attention: Table 1 measured",
    _rows,
    dict.fromkeys(_FIGURES, False),
    derive=cheaper_from,
    notes=_NOTES,
    verdict=_verdict,
    scales=SCALES | {QUICK: replace(SCALES[QUICK], sized_for="a minute on two cores")},
)
