"""Extra sections of the page of `reproduce scaling`: dot products, random and trained, and gradients."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from allyouneed.explorer.html_parts import finish_panel, heading, panel, plot
from allyouneed.lab.paper.experiment import Results
from allyouneed.lab.paper.scaling import D_K, KINDS, NUM_BINS, WIDEST, random_row

_LEAST_DENSITY = 1e-5
_PANELS = {"variance": "variance of q.k", "softmax_gradient": "gradient of the softmax, 1 at most"}


def sections(results: Results) -> Iterator[str]:
    """The page's sections as HTML, for the rows computed so far."""
    yield from _random(results)
    yield from _trained(results)


def _random(results: Results) -> Iterator[str]:
    """What dot products of random queries and keys do to a softmax."""
    curves = {(figure, kind): _curve(results, kind, figure) for figure in _PANELS for kind in KINDS}
    if not any(curves.values()):
        return
    yield heading(
        "Why dot products are divided by sqrt(d_k)",
        "The dot product of a query and a key whose components are independent, with mean 0 and variance 1, "
        "has variance d_k. With a large d_k, a softmax over such products gives almost all weight to one of "
        "them, and its gradient vanishes. Divided by sqrt(d_k), neither depends on d_k.",
    )
    yield plot(_pictures(curves), "variance and gradient against d_k, with and without scaling")


def _trained(results: Results) -> Iterator[str]:
    """How the dot products of trained models are distributed."""
    shares = {
        row.name: np.mean([outcome["qk_histogram"] for outcome in outcomes], axis=0)
        for row in results.rows
        if (outcomes := [o for o in results.outcomes.get(row.name, {}).values() if "qk_histogram" in o])
    }
    if not shares:
        return
    yield heading(
        "What trained queries and keys do",
        "The footnote of 3.2.1 assumes that the components of queries and keys are independent, with mean 0 "
        "and variance 1, so that `q.k` has mean 0 and variance d_k. The table shows the variances that "
        "trained heads have, and the one that `q.k` would have if these components were independent. The "
        "curves are the distributions of `q.k` in standard deviations of each head, mean of all heads.",
    )
    yield plot([_distributions(shares)], "distribution of trained dot products beside a normal one")


def _distributions(shares: Mapping[str, NDArray[np.float64]]) -> Figure:
    picture, axes = panel(4.2)
    width = 2 * WIDEST / NUM_BINS
    centres = -WIDEST + width * (np.arange(NUM_BINS) + 0.5)
    for name, of_bins in shares.items():
        axes.semilogy(centres, np.maximum(of_bins / width, _LEAST_DENSITY), linewidth=1.2, label=name)
    normal = np.exp(-(centres**2) / 2) / math.sqrt(2 * math.pi)
    axes.semilogy(centres, np.maximum(normal, _LEAST_DENSITY), "--", color="gray", label="normal")
    axes.set(xlabel="q.k, in standard deviations of its head", ylabel="density", ylim=(_LEAST_DENSITY, 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return picture


def _curve(results: Results, kind: str, figure: str) -> dict[int, float]:
    """d_k -> mean of a figure over seeds."""
    found = {d_k: results.values(random_row(kind, d_k), figure) for d_k in D_K}
    return {d_k: sum(values) / len(values) for d_k, values in found.items() if values}


def _pictures(curves: Mapping[tuple[str, str], Mapping[int, float]]) -> Iterator[Figure]:
    for figure, title in _PANELS.items():
        picture, axes = panel()
        for kind in KINDS:
            curve = curves[figure, kind]
            axes.loglog(list(curve), list(curve.values()), "o-", markersize=4, label=kind)
        finish_panel(axes, title=title, xlabel="d_k")
        yield picture
