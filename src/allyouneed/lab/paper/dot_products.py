"""How the dot products of a trained model are distributed, beside the assumption of the footnote of 3.2.1.

The footnote: if the components of q and k are independent random variables with mean 0 and variance 1, their
dot product has mean 0 and variance d_k.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.data.batching import make_batch
from allyouneed.data.store import PairStore
from allyouneed.model import EncoderDecoder
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.evaluation_mode import evaluation_mode
from allyouneed.model.masks import ImplicitMask
from allyouneed.training.update import batch_loss

_NUM_PAIRS = 200
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
        for place in range(min(_NUM_PAIRS, store.num_pairs)):  # one at a time: nothing is padded
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
