"""Why dot products are divided by sqrt(d_k) (3.2.1 and the paper's source): statistics and training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from allyouneed.config.presets import base
from allyouneed.lab.paper.dot_products import dot_product_figures
from allyouneed.lab.paper.experiment import Experiment, Row, Work
from allyouneed.lab.paper.scales import Scale
from allyouneed.lab.paper.training_rows import ALL_SCORES, require_validation, training_row
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.runs.loading import load_for, model_of
from allyouneed.tasks.translation.task import TRANSLATION

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
