"""Table 1 (section 4) measured: the cost of each layer type, and how it connects positions."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as Picture

from allyouneed.explorer.html_parts import cards, finish_panel, heading, legend_of, panel, plot
from allyouneed.lab.paper.experiment import PROCESSOR, Experiment, Figure, Figures, Results, Row, Work
from allyouneed.lab.paper.layer_measurements import (
    LayerCost,
    Size,
    crossing,
    exponent,
    measure,
    path_length,
    reach_by_round,
    receptive_field,
    sequential_operations,
)
from allyouneed.lab.paper.layer_types import CONNECTED_N, CONNECTED_R, TYPES, WIDTH, K, LayerType, R
from allyouneed.lab.paper.scales import SCALES, Scale
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    FullSelfAttention,
    PositionWise,
    SeparableConvolutional,
)

LENGTHS = (4, 8, 16, 32, 64)
QUICK = "quick"
"""The scale without each layer's largest sizes, measured in fewer rounds."""
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


_STYLES = ("C3o-", "C0o-", "C2o-", "C8o-", "C1o-", "C5o--", "C7o--", "C4o--")
_TYPE_OF = {layer.name: layer for layer in TYPES}
_STYLE_OF = dict(zip(_TYPE_OF, _STYLES, strict=True))
_ROUNDS_SHOWN = 5
_PANELS = (
    ("seconds", "core, time", "seconds"),
    ("flops", "core, FLOPs of a sequence", "FLOPs"),
    ("bytes", "core, memory", "bytes"),
    ("layer_seconds", "layer, time", "seconds"),
    ("layer_flops", "layer, FLOPs of a sequence", "FLOPs"),
    ("layer_bytes", "layer, memory", "bytes"),
)
"""Panels of a picture, row by row: field of `LayerCost`, title, unit."""


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
        "receptive_field": receptive_field(layer.stack, LENGTHS[-1]),
        "by_n": _curve(by_n, of_n),
        "by_d": _curve(by_d, of_d),
        "paths": {"n": LENGTHS, "path": [_number(path) for path in paths]},
        # For pictures: per round and input position, a string with 1 for each output position it reaches.
        "reach": [["".join(str(int(x)) for x in row) for row in reach.tolist()] for reach in reached],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no infinity


def _curve(sizes: Sequence[Size], costs: Sequence[LayerCost]) -> dict[str, list[Any]]:
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
        "receptive_field": layer.receptive_field(CONNECTED_N),
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


def _rows(scale: Scale) -> Sequence[Row]:
    types = TYPES
    if scale.name == QUICK:
        types = [replace(layer, lengths=layer.lengths[:-1], widths=layer.widths[:-1]) for layer in TYPES]
    rows = [Row(t.name, t.what, partial(measured, t), _paper(t), every_seed=False) for t in types]
    return [*rows, Row("separable_k_is_n", "with k = n", _remark, every_seed=False)]


def _verdict(results: Results, counted: str) -> str:
    """Distances of the measured orders from the paper's."""
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


def _sections(results: Results) -> Iterator[str]:
    """The page's sections as HTML, for the rows measured so far."""
    found = {name: next(iter(of_row.values())) for name, of_row in results.outcomes.items()}
    figures = {name: found[name] for name in _TYPE_OF if "by_n" in found.get(name, {})}
    titles = {row.name: row.what for row in results.rows}
    if not figures:
        return
    yield _orders(figures, titles)
    yield heading(
        "Cost against length",
        "The core, then the whole layer: time of the forward and backward pass, FLOPs, and "
        "peak memory of the tensors. Axes are logarithmic: the slope of a line is its exponent. By the "
        "paper's orders, full self-attention and fully connected layers grow with the square of n, "
        "restricted self-attention and the other layers in proportion to n. The kernels of self-attention "
        "store no matrix of weights, so their memory is linear in n.",
    )
    yield plot(_cost_panels(figures, titles, "by_n", "n"), "time, FLOPs and memory against length")
    yield heading(
        "Cost against width",
        "The core of self-attention grows with d, recurrence and convolution with its square.",
    )
    yield plot(_cost_panels(figures, titles, "by_d", "d"), "time, FLOPs and memory against width")
    yield heading(
        "How far information travels",
        f"Each square is a layer of the network. Its rows are {CONNECTED_N // 2} input positions, its "
        "columns the output positions that they reach after one round, two, and so on. Short paths make "
        f"long-range dependencies easier to learn. (Here k = {K}, r = {CONNECTED_R}.)",
    )
    yield plot(_reach_panels(figures, titles), "positions reached by each position, round by round")
    yield plot([_path_panel(figures, titles)], "path length against length")
    remark = found.get("separable_k_is_n", {})
    if "k_is_n" in remark:  # absent if the row failed
        yield heading(
            "Even with k = n",
            "A separable convolution with a kernel as wide as the sequence connects all positions in one "
            "layer. Its complexity, n²d + nd², equals that of a self-attention layer, n²d, plus a "
            "position-wise layer, nd², which together form a layer of the Transformer.",
        )
        yield plot([_remark_panel(remark["k_is_n"])], "FLOPs of both against length")


def _orders(figures: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The paper's table, with the measured values beside the orders."""
    titles = (
        *("layer type", "complexity per layer", "exponents fitted to time"),
        *("sequential operations", f"counted, n = {CONNECTED_N}"),
        *("maximum path length", f"found, n = {CONNECTED_N}, k = {K}, r = {CONNECTED_R}"),
        *("receptive field", "found"),
    )
    lines = []
    for name, found in figures.items():
        complexity, sequential, path, field = _TYPE_OF[name].orders
        cells = (
            f"O({complexity})",
            f"<span>n<sup>{found['time_n']:.2f}</sup> · d<sup>{found['time_d']:.2f}</sup></span>",
            *(f"O({sequential})", str(found["sequential"])),
            *(f"O({path})", "∞" if found["path"] == "inf" else str(found["path"])),
            *(field, str(found.get("receptive_field", ""))),
        )
        lines.append((html.escape(names[name]), cells))
    text = (
        "The paper's orders beside the measurements on this machine: the exponents of n and d in the time of "
        "the core, the longest chain of dependent matrix products, the number of rounds until every "
        "input position has reached every later output position, and the number of input positions that "
        "influence one output position of a layer, a column of the paper's draft. "
        f"Cost is measured with k = {K} and r = {R}; lengths are compared at d = {WIDTH}."
    )
    return heading("The table", text) + cards(titles, lines)


def _cost_panels(
    figures: Mapping[str, Any], titles: Mapping[str, str], curve: str, size: str
) -> Iterator[Picture]:
    """All costs against one size: those of the core first, then those of the whole layer, then the legend."""
    for cost, title, unit in _PANELS:
        picture, axes = panel()
        for name, found in figures.items():
            costs = found[curve]
            axes.loglog(costs[size], costs[cost], _STYLE_OF[name], markersize=3, label=titles[name])
        finish_panel(axes, legend=False, title=title, xlabel=size, ylabel=unit)
        yield picture
    yield legend_of(axes)


def _reach_panels(figures: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[Picture]:
    """For each layer, its first rounds and its last one, with their numbers."""
    for name, found in figures.items():
        picture = Picture((4, 1.4), layout="constrained")
        picture.suptitle(titles[name], fontsize=10)
        row = picture.subplots(1, _ROUNDS_SHOWN)
        rounds = list(enumerate(found["reach"], start=1))
        shown = rounds if len(rounds) <= _ROUNDS_SHOWN else [*rounds[: _ROUNDS_SHOWN - 1], rounds[-1]]
        for axes in row:
            axes.set_axis_off()
        for axes, (number, reach) in zip(row, shown, strict=False):
            axes.set_axis_on()
            axes.imshow(np.array([[int(x) for x in line] for line in reach]), vmin=0, vmax=1.4, cmap="Blues")
            axes.set_title(f"round {number}", fontsize=8)
            axes.set(xticks=[], yticks=[])
        yield picture


def _path_panel(figures: Mapping[str, Any], titles: Mapping[str, str]) -> Picture:
    picture, axes = panel(4.4)
    for name, found in figures.items():
        lengths = [float(path) for path in found["paths"]["path"]]
        if all(map(math.isfinite, lengths)):
            axes.loglog(found["paths"]["n"], lengths, _STYLE_OF[name], markersize=3, label=titles[name])
    finish_panel(axes, legend=False, xlabel="n", ylabel="maximum path length")
    picture.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return picture


def _remark_panel(curves: Mapping[str, Any]) -> Picture:
    picture, axes = panel()
    axes.loglog(curves["n"], curves["separable"], "o-", label="separable convolution, k = n")
    axes.loglog(curves["n"], curves["attention_and_network"], "o-", label="self-attention + position-wise")
    finish_panel(axes, xlabel=f"n, d = {WIDTH}", ylabel="FLOPs of the layers, forward")
    return picture


_FIGURES = {
    "time_n": Figure(
        "exponent of n, time", "exponent of the length n in the time of the core's forward and backward pass"
    ),
    "time_d": Figure("exponent of d, time", "exponent of the width d in that time"),
    "flops_n": Figure(
        "exponent of n, FLOPs",
        "exponent of n in the core's FLOPs, as PyTorch counts them; with k = n, in those of the layer",
    ),
    "flops_d": Figure("exponent of d, FLOPs", "exponent of d in those FLOPs"),
    "memory_n": Figure(
        "exponent of n, memory",
        "exponent of n in the peak memory of the core's tensors without weights and inputs",
    ),
    "layer_n": Figure(
        "exponent of n, layer time",
        "exponent of n in the time of the whole layer, projections and normalisation too",
    ),
    "layer_d": Figure("exponent of d, layer time", "exponent of d in the time of the whole layer"),
    "sequential": Figure("sequential", "longest chain of dependent matrix products of a layer"),
    "sequential_n": Figure("sequential, growth", "its growth per additional position: 0 is O(1), 1 is O(n)"),
    "path": Figure(
        "path",
        "maximum path length: rounds until every input position has changed every later output position",
    ),
    "receptive_field": Figure(
        "receptive field", "number of input positions that influence one output position of a layer"
    ),
    "cheaper_from": Figure("cheaper from", "n above which the core takes less time than full self-attention"),
    "cheaper_from_flops": Figure(
        "cheaper from, FLOPs", "n above which the core needs fewer FLOPs than full self-attention"
    ),
    "ratio_shortest": Figure(
        "FLOPs ratio, shortest n",
        "FLOPs of self-attention and a position-wise layer, divided by the row's, at the shortest n",
    ),
    "ratio_longest": Figure("FLOPs ratio, longest n", "the same at the longest n"),
}

TABLE1 = Experiment(
    "table1",
    "Why self-attention: Table 1 measured",
    _rows,
    _FIGURES,
    derive=cheaper_from,
    notes=_NOTES,
    verdict=_verdict,
    sections=_sections,
    sections_first=True,
    scales=SCALES | {QUICK: replace(SCALES[QUICK], sized_for="a minute on two cores")},
)
