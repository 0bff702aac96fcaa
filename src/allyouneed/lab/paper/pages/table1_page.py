"""Extra sections of the page of `reproduce table1`: the argument of section 4, in pictures."""

import html
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from allyouneed.explorer.html_parts import cards, finish_panel, heading, legend_of, panel, plot
from allyouneed.lab.paper.experiment import Results
from allyouneed.lab.paper.table1 import CONNECTED_N, CONNECTED_R, WIDTH, K, R

_ORDERS = {
    "self_attention": ("n² · d", "1", "1"),
    "recurrent": ("n · d²", "n", "n"),
    "convolutional": ("k · n · d²", "1", "n / k"),
    "dilated": ("k · n · d²", "1", "log_k n"),
    "restricted": ("r · n · d", "1", "n / r"),
    "separable": ("k · n · d + n · d²", "1", "log_k n"),
    "position_wise": ("n · d²", "1", "∞"),
    "fully_connected": ("n² · d²", "1", "1"),
}
"""Row -> the table's orders: complexity, sequential operations, maximum path length. The last three are
commented out in the paper's source; contiguous convolutions are in its text."""
_STYLES = ("C3o-", "C0o-", "C2o-", "C8o-", "C1o-", "C5o--", "C7o--", "C4o--")
_STYLE_OF = dict(zip(_ORDERS, _STYLES, strict=True))
_ROUNDS_SHOWN = 5
_PANELS = (
    ("seconds", "core, time", "seconds"),
    ("flops", "core, FLOPs of a sequence", "FLOPs"),
    ("bytes", "core, memory", "bytes"),
    ("layer_seconds", "layer, time", "seconds"),
    ("layer_flops", "layer, FLOPs of a sequence", "FLOPs"),
    ("layer_bytes", "layer, memory", "bytes"),
)
"""Panels of a picture, row by row: field of `layer_costs.Cost`, title, unit."""


def sections(results: Results) -> Iterator[str]:
    """The page's sections as HTML, for the rows measured so far."""
    found = {name: next(iter(of_row.values())) for name, of_row in results.outcomes.items()}
    figures = {name: found[name] for name in _ORDERS if "by_n" in found.get(name, {})}
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
    yield plot(_curves(figures, titles, "by_n", "n"), "time, FLOPs and memory against length")
    yield heading(
        "Cost against width",
        "The core of self-attention grows with d, recurrence and convolution with its square.",
    )
    yield plot(_curves(figures, titles, "by_d", "d"), "time, FLOPs and memory against width")
    yield heading(
        "How far information travels",
        f"Each square is a layer of the network. Its rows are {CONNECTED_N // 2} input positions, its "
        "columns the output positions that they reach after one round, two, and so on. Short paths make "
        f"long-range dependencies easier to learn. (Here k = {K}, r = {CONNECTED_R}.)",
    )
    yield plot(_reach(figures, titles), "positions reached by each position, round by round")
    yield plot([_paths(figures, titles)], "path length against length")
    remark = found.get("separable_k_is_n", {})
    if "k_is_n" in remark:  # absent if the row failed
        yield heading(
            "Even with k = n",
            "A separable convolution with a kernel as wide as the sequence connects all positions in one "
            "layer. Its complexity, n²d + nd², equals that of a self-attention layer, n²d, plus a "
            "position-wise layer, nd², which together form a layer of the Transformer.",
        )
        yield plot([_remark(remark["k_is_n"])], "FLOPs of both against length")


def _orders(figures: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The paper's table, with the measured values beside the orders."""
    titles = (
        *("layer type", "complexity per layer", "exponents fitted to time"),
        *("sequential operations", f"counted, n = {CONNECTED_N}"),
        *("maximum path length", f"found, n = {CONNECTED_N}, k = {K}, r = {CONNECTED_R}"),
    )
    lines = []
    for name, found in figures.items():
        complexity, sequential, path = _ORDERS[name]
        cells = (
            *(f"O({complexity})", _powers(found["time_n"], found["time_d"])),
            *(f"O({sequential})", str(found["sequential"])),
            *(f"O({path})", "∞" if found["path"] == "inf" else str(found["path"])),
        )
        lines.append((html.escape(names[name]), cells))
    text = (
        "The paper's orders beside the measurements on this machine: the exponents of n and d in the time of "
        "the core, the longest chain of dependent matrix products, and the number of rounds until every "
        "input position has reached every later output position. "
        f"Cost is measured with k = {K} and r = {R}; lengths are compared at d = {WIDTH}."
    )
    return heading("The table", text) + cards(titles, lines)


def _powers(n: float, d: float) -> str:
    return f"<span>n<sup>{n:.2f}</sup> · d<sup>{d:.2f}</sup></span>"


def _curves(figures: Mapping[str, Any], titles: Mapping[str, str], curve: str, size: str) -> Iterator[Figure]:
    """All costs against one size: those of the core first, then those of the whole layer, then the legend."""
    for cost, title, unit in _PANELS:
        picture, axes = panel()
        for name, found in figures.items():
            costs = found[curve]
            axes.loglog(costs[size], costs[cost], _STYLE_OF[name], markersize=3, label=titles[name])
        finish_panel(axes, legend=False, title=title, xlabel=size, ylabel=unit)
        yield picture
    yield legend_of(axes)


def _reach(figures: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[Figure]:
    """For each layer, its first rounds and its last one, with their numbers."""
    for name, found in figures.items():
        picture = Figure((4, 1.4), layout="constrained")
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


def _paths(figures: Mapping[str, Any], titles: Mapping[str, str]) -> Figure:
    picture, axes = panel(4.4)
    for name, found in figures.items():
        lengths = [float(path) for path in found["paths"]["path"]]
        if all(map(math.isfinite, lengths)):
            axes.loglog(found["paths"]["n"], lengths, _STYLE_OF[name], markersize=3, label=titles[name])
    finish_panel(axes, legend=False, xlabel="n", ylabel="maximum path length")
    picture.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return picture


def _remark(curves: Mapping[str, Any]) -> Figure:
    picture, axes = panel()
    axes.loglog(curves["n"], curves["separable"], "o-", label="separable convolution, k = n")
    axes.loglog(curves["n"], curves["attention_and_network"], "o-", label="self-attention + position-wise")
    finish_panel(axes, xlabel=f"n, d = {WIDTH}", ylabel="FLOPs of the layers, forward")
    return picture
