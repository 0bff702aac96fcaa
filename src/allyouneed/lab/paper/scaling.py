"""Why dot products are divided by sqrt(d_k) (3.2.1 and the paper's source): statistics and training."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config.presets import base
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.store import PairStore
from allyouneed.explorer.html_parts import finish_panel, heading, panel, plot
from allyouneed.lab.paper.experiment import Experiment, Figure, Results, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import ALL_SCORES, require_validation, training_row
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.dropout import evaluation_mode
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.masks import ImplicitMask
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_for, model_of
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.training.update import batch_loss

_NUM_SENTENCES = 200
"""Number of sentence pairs: enough for tens of thousands of dot products of every head."""
NUM_BINS, WIDEST = 81, 8.1
"""Bins of the histogram, and where it ends, in standard deviations."""
_NUM_PAIRS, _NUM_KEYS, _NUM_QUERIES = 100_000, 32, 2_000
_ADDITIVE_TOKENS = 512
"""Maximum tokens of a micro-batch with additive attention, at the paper's widths."""
KINDS = ("unscaled", "scaled")
"""Kinds of dot products."""
D_K = (4, 16, 64, 256, 1024)
_LEAST_DENSITY = 1e-5
_PANELS = {"variance": "variance of q.k", "softmax_gradient": "gradient of the softmax, 1 at most"}
_NOTES = [
    "Rows such as `random_unscaled_4` draw queries and keys whose components have mean 0 and variance 1.",
    "On the other rows, section 3.2.1 says: for small d_k, additive and dot-product attention perform "
    "similarly; for larger d_k, additive attention outperforms dot products without scaling.",
]


class _Head(NamedTuple):
    """Queries and keys of a head in each sentence, [length, d_k], and the products of its open pairs."""

    queries: list[Tensor]
    keys: list[Tensor]
    products: list[Tensor]


def dot_product_figures(model: EncoderDecoder, store: PairStore) -> dict[str, Any]:
    """Statistics of q.k, before any scaling, of all heads of a model that reads held-out pairs.

    Returns:
        The figures of `_FIGURES` that begin with `qk`, as means over heads; and `qk_histogram`: shares of the
        standardised dot products in NUM_BINS bins from -WIDEST to WIDEST.
    """
    heads: dict[tuple[int, int], _Head] = defaultdict(lambda: _Head([], [], []))
    with evaluation_mode(model.modules()), _recorded(model, heads):
        for place in range(min(_NUM_SENTENCES, store.num_pairs)):  # one at a time: nothing is padded
            batch_loss(model, make_batch(store, np.array([place])), smoothing=0.0, precision="float32")
    variances, components, independent, within, histogram = [], [], [], [], np.zeros(NUM_BINS)
    for head in heads.values():
        found, query, key = (torch.cat(p).double() for p in (head.products, head.queries, head.keys))
        variances.append(float(found.var()))
        components += [float(query.var(0).mean()), float(key.var(0).mean())]
        independent.append(independent_variance(query, key))
        standard = ((found - found.mean()) / math.sqrt(variances[-1])).numpy()
        within.append(float((np.abs(standard) <= 2).mean()))
        counts, _ = np.histogram(standard, NUM_BINS, (-WIDEST, WIDEST))
        histogram += counts / len(standard) / len(heads)
    return {
        "qk_variance": float(np.mean(variances)),
        "qk_components": float(np.mean(components)),
        "qk_independent": float(np.mean(independent)),
        "qk_within_two": 100 * float(np.mean(within)),
        "qk_histogram": [round(float(share), 6) for share in histogram],
    }


def independent_variance(query: Tensor, key: Tensor) -> float:
    """The variance of q.k if all components, [number, d_k], were independent with the moments they have."""
    squares = query.square().mean(0) * key.square().mean(0)
    return float((squares - (query.mean(0) * key.mean(0)).square()).sum())


@contextmanager
def _recorded(model: EncoderDecoder, heads: dict[tuple[int, int], _Head]) -> Iterator[None]:
    """While this lasts, every attention of a model adds to `heads`: number of the attention and the head."""
    layers = [layer for layer in model.modules() if isinstance(layer, SelfAttention | CrossAttention)]
    before = [layer.attend for layer in layers]

    def record(number: int, layer: SelfAttention | CrossAttention) -> None:
        def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | ImplicitMask) -> Tensor:
            is_open = mask.dense() if isinstance(mask, ImplicitMask) else mask
            opened = is_open.expand(1, 1, query.size(2), key.size(2))[0, 0]
            for head, (queries, keys) in enumerate(zip(query[0], key[0], strict=True)):
                products = (queries @ keys.T)[opened]
                for found, new in zip(heads[number, head], (queries, keys, products), strict=True):
                    found.append(new)
            attended: Tensor = layer.plain(query, key, value, mask)
            return attended

        layer.attend = attend

    for number, layer in enumerate(layers):
        record(number, layer)
    try:
        yield
    finally:
        for layer, attend in zip(layers, before, strict=True):
            layer.attend = attend


def dot_product_statistics(d_k: int, scaled: bool, seed: int) -> dict[str, float]:
    """Variance of q.k for independent components of variance 1; largest weight, gradient of its softmax."""
    generator = torch.Generator().manual_seed(seed)
    divisor = math.sqrt(d_k) if scaled else 1.0
    query, key = (torch.randn(_NUM_PAIRS, d_k, generator=generator) for _ in range(2))
    products = (query * key).sum(-1) / divisor
    queries = torch.randn(_NUM_QUERIES, d_k, generator=generator)
    keys = torch.randn(_NUM_KEYS, d_k, generator=generator)
    weights = (queries @ keys.T / divisor).softmax(-1)
    largest = weights.max(-1).values
    # d softmax_i / d score_i = w (1 - w), at most 1/4.
    return {
        "variance": float(products.var()),
        "largest_weight": float(largest.mean()),
        "softmax_gradient": float(4 * (largest * (1 - largest)).mean()),
    }


def additive_micro_batch_tokens(scale: Scale) -> int:
    """Tokens that fit on a GPU: additive attention holds a vector per pair of positions and head."""
    config = scale(base())
    return min(config.training.resolved_micro_batch_tokens(), _ADDITIVE_TOKENS * scale.narrower**2)


def _compute(work: Work, *, d_k: int, scaled: bool) -> Mapping[str, Any]:
    return dot_product_statistics(d_k, scaled, work.seed)


def random_row(kind: str, d_k: int) -> str:
    """Name of a row of random queries and keys."""
    return f"random_{kind}_{d_k}"


def _trained(scale: Scale, attention: str, d_k: int, baselines: Sequence[str] | None) -> Row:
    """A row that trains; of dot products it has statistics, and for the paper's the footnote's assumption."""
    config = base().replace(model={"attention": attention, "d_k": d_k})
    is_additive = attention == "additive"
    row = training_row(
        f"{attention}_{d_k}",
        f"{attention}, d_k = {d_k}",
        config,
        {},
        baselines=baselines,
        micro_batch_tokens=additive_micro_batch_tokens(scale) if is_additive else None,
    )
    if is_additive:
        return row

    def compute(work: Work) -> Mapping[str, Any]:
        figures, valid = row.compute(work), PreparedData(work.data).valid
        assert valid is not None
        model = model_of(load_for(work.directory / "run", TRANSLATION))
        return {**figures, **dot_product_figures(model, valid)}

    width = scale(config).model.head_widths[0]
    return replace(row, compute=compute, paper={"qk_variance": float(width), "qk_components": 1.0})


def _rows(scale: Scale) -> Sequence[Row]:
    random = [
        Row(
            random_row(kind, d_k),
            f"random, {kind}, d_k = {d_k}",
            partial(_compute, d_k=d_k, scaled=kind == "scaled"),
            {"variance": 1.0 if kind == "scaled" else float(d_k)},
            every_seed=False,
            needs_data=False,
        )
        for kind in KINDS
        for d_k in D_K
    ]
    trained = [
        _trained(scale, attention, d_k, baselines)
        for attention, d_k, baselines in (
            ("scaled", 16, None),
            ("additive", 16, None),
            ("unscaled", 16, None),
            ("scaled", 256, None),
            ("additive", 256, ["scaled_256", "unscaled_256"]),
            ("unscaled", 256, ["scaled_256"]),
        )
    ]
    return [*trained, *random]


def _random_section(results: Results) -> Iterator[str]:
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


def _trained_section(results: Results) -> Iterator[str]:
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


def _distributions(shares: Mapping[str, NDArray[np.float64]]) -> Picture:
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


def _pictures(curves: Mapping[tuple[str, str], Mapping[int, float]]) -> Iterator[Picture]:
    for figure, title in _PANELS.items():
        picture, axes = panel()
        for kind in KINDS:
            curve = curves[figure, kind]
            axes.loglog(list(curve), list(curve.values()), "o-", markersize=4, label=kind)
        finish_panel(axes, title=title, xlabel="d_k")
        yield picture


_FIGURES = {
    "qk_variance": Figure("q.k, variance", "variance of a head's q.k on the validation text, before scaling"),
    "qk_components": Figure("q and k, variance", "variance of a component of queries or keys"),
    "qk_independent": Figure(
        "q.k if independent", "what the variance of q.k would be if components were independent"
    ),
    "qk_within_two": Figure("q.k within 2 sd", "% of q.k within two deviations of the mean; normal: 95.4"),
    "variance": Figure("variance", "variance of q.k of random queries and keys"),
    "largest_weight": Figure("largest weight", "mean largest weight of a softmax over 32 keys"),
    "softmax_gradient": Figure(
        "softmax gradient",
        "mean size of the gradient of that softmax at its largest weight, times 4: 1 at most",
    ),
}

SCALING = Experiment(
    "scaling",
    "The scaling factor of dot-product attention (3.2.1)",
    _rows,
    ALL_SCORES | _FIGURES,
    require_validation,
    notes=_NOTES,
    sections=lambda results: chain(_random_section(results), _trained_section(results)),
)
