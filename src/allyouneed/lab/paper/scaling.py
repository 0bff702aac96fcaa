"""Why dot products are divided by sqrt(d_k) (3.2.1 and the paper's source): statistics and training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.config.presets import base
from allyouneed.data.batch_plans import make_batch
from allyouneed.data.store import PairStore
from allyouneed.lab.paper.experiment import Experiment, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import ALL_SCORES, require_validation, training_row
from allyouneed.model import EncoderDecoder
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.dropout import evaluation_mode
from allyouneed.model.masks import ImplicitMask
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_for, model_of
from allyouneed.tasks.translation.task import TRANSLATION
from allyouneed.training.update import batch_loss

_NUM_SENTENCES = 200
"""Number of sentence pairs: enough for tens of thousands of dot products of every head."""
NUM_BINS, WIDEST = 81, 8.1
"""Bins of the histogram, and where it ends, in standard deviations."""


class _Head:
    """What a head compares."""

    def __init__(self) -> None:
        self.queries: list[Tensor] = []
        self.keys: list[Tensor] = []
        self.products: list[Tensor] = []

    def add(self, query: Tensor, key: Tensor, is_open: Tensor) -> None:
        """Add queries and keys of a sentence, [length, d_k], and the products of the pairs that are open."""
        self.queries.append(query)
        self.keys.append(key)
        self.products.append((query @ key.T)[is_open])


def dot_product_figures(model: EncoderDecoder, store: PairStore) -> dict[str, Any]:
    """Statistics of q.k, before any scaling, of all heads of a model that reads held-out pairs.

    Returns:
        `qk_variance`: mean variance of the dot products of a head; `qk_components`: mean variance of the
        components of queries and keys; `qk_independent`: the variance of q.k if these components were
        independent; `qk_within_two`: percentage of dot products within two standard deviations of their
        head's mean, 95.4 for a normal distribution; and `qk_histogram`: shares of the standardised dot
        products in NUM_BINS bins from -WIDEST to WIDEST.
    """
    heads: dict[tuple[int, int], _Head] = {}
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
            for head in range(layer.num_heads):
                heads.setdefault((number, head), _Head()).add(query[0, head], key[0, head], opened)
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


_NUM_PAIRS, _NUM_KEYS, _NUM_QUERIES = 100_000, 32, 2_000
_ADDITIVE_TOKENS = 512
"""Maximum tokens of a micro-batch with additive attention, at the paper's widths."""
KINDS = ("unscaled", "scaled")
"""Kinds of dot products."""
D_K = (4, 16, 64, 256, 1024)
_NOTES = [
    "Rows such as `random_unscaled_4` draw queries and keys whose components have mean 0 and variance 1.",
    "On the other rows, section 3.2.1 says: for small d_k, additive and dot-product attention perform "
    "similarly; for larger d_k, additive attention outperforms dot products without scaling.",
]


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


SCALING = Experiment(
    "scaling",
    "The scaling factor of dot-product attention (3.2.1)",
    _rows,
    ALL_SCORES
    | dict.fromkeys(("qk_variance", "qk_components", "qk_independent", "qk_within_two"), False)
    | {"variance": False, "largest_weight": False, "softmax_gradient": False},
    require_validation,
    notes=_NOTES,
)
