"""Measures of an attention head: how focused it is, how far and where it looks (paper 4, figures 3 to 5)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.data.words import Span
from allyouneed.inference.alignment import Links


def merge_pieces(
    weights: Float[Tensor, "*heads queries keys"], queries: list[Span], keys: list[Span]
) -> Float[Tensor, "*heads query_words key_words"]:
    """Merge attention weights between pieces into weights between words; rows still sum to 1.

    Weights are summed over the pieces of a key and averaged over those of a query (Clark et al. 2019,
    section 4.1).

    Args:
        weights: Attention weights between pieces.
        queries: Half-open span of pieces of each query word.
        keys: Half-open span of pieces of each key word.
    """
    columns = torch.stack([weights[..., first:behind].sum(-1) for first, behind in keys], dim=-1)
    return torch.stack([columns[..., first:behind, :].mean(-2) for first, behind in queries], dim=-2)


def measure(
    weights: Float[Tensor, "*heads queries keys"], control: int | None
) -> dict[str, Float[Tensor, "*heads"]]:
    """Measure each head; every measure is a mean over the queries.

    Query i of n corresponds to key round(i (m - 1) / (n - 1)) of m: the query itself in self-attention, the
    diagonal from first to last in cross-attention.

    - entropy: in bits, from 0 (each query attends to one key) to log2(m) (uniform weights).
    - distance: mean distance from the corresponding key, in positions.
    - diagonal, previous, next: weight on the corresponding key, the one before it and the one after it.
    - control: weight on the control symbol.

    Args:
        weights: Attention weights; rows sum to 1.
        control: Index of the control symbol among the keys; None if there is none, and no such measure.
    """
    num_queries, num_keys = weights.shape[-2:]
    places = _places(num_queries, num_keys).to(weights.device)
    away = (torch.arange(num_keys, device=weights.device) - places[:, None]).abs()  # (queries, keys)
    measures = {
        "entropy": -torch.xlogy(weights, weights).sum(-1).mean(-1) / torch.tensor(2.0).log() + 0.0,
        "distance": (weights * away).sum(-1).mean(-1),
        "diagonal": _mean_weight_at(weights, places),
        "previous": _mean_weight_at(weights, places - 1),
        "next": _mean_weight_at(weights, places + 1),
    }
    return measures if control is None else measures | {"control": weights[..., control].mean(-1)}


def strongest_links(weights: Float[Tensor, "written source_len"]) -> Links:
    """Link each target word to the source word it attends to most, as (source, target).

    Args:
        weights: Attention weights without the end symbols.
    """
    if 0 in weights.shape:
        return []
    return sorted((i, j) for j, i in enumerate(weights.argmax(dim=-1).tolist()))


def agreement(links: Links, others: Links) -> float:
    """F1 of two sets of links; 1 minus this is the alignment error rate with sure links only."""
    total = len(links) + len(others)
    return 2 * len(set(links) & set(others)) / total if total else 0.0


def _places(num_queries: int, num_keys: int) -> Int[Tensor, " queries"]:
    steps = max(1, num_queries - 1)  # integer arithmetic always rounds a half up
    return (2 * torch.arange(num_queries) * (num_keys - 1) + steps) // (2 * steps)


def _mean_weight_at(
    weights: Float[Tensor, "*heads queries keys"], keys: Int[Tensor, " queries"]
) -> Float[Tensor, "*heads"]:
    """Mean weight of query i on `keys[i]`, over the queries whose key exists."""
    queries = torch.nonzero((keys >= 0) & (keys < weights.size(-1)))[:, 0]
    if not len(queries):
        return weights.new_zeros(weights.shape[:-2])
    return weights[..., queries, keys[queries]].mean(-1)
