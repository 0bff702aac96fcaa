"""What a head does, in numbers: how sharply, how far and whereto it looks (paper 4, figures 3 to 5)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.data.words import Span
from allyouneed.inference.alignment import Links


def merge_pieces(
    weights: Float[Tensor, "*heads queries keys"], queries: list[Span], keys: list[Span]
) -> Float[Tensor, "*heads query_words key_words"]:
    """The weights of words from those of their pieces; rows still sum to 1.

    What is attended to is added up, and the pieces that attend are averaged (Clark et al. 2019, section 4.1).

    Args:
        weights: Attention weights between pieces.
        queries: The pieces of each word that attends, from the first to behind the last.
        keys: The same for each word that is attended to.
    """
    columns = torch.stack([weights[..., first:behind].sum(-1) for first, behind in keys], dim=-1)
    return torch.stack([columns[..., first:behind, :].mean(-2) for first, behind in queries], dim=-2)


def measure(
    weights: Float[Tensor, "*heads queries keys"], control: int
) -> dict[str, Float[Tensor, "*heads"]]:
    """Means over the positions that attend, for each head.

    Position i of n that attend has its place at position round(i (m - 1) / (n - 1)) of m that are attended
    to: in self-attention itself, in attention to the source a diagonal from first to last.

    - entropy: in bits; 0 where each position looks at one other, log2(m) where it looks at all alike.
    - distance: of what is looked at from the place itself, in positions.
    - diagonal, previous, next: the weight on the place itself, on the one before it, on the one behind it.
    - control: the weight on the control symbol.

    Args:
        weights: Rows sum to 1.
        control: The position that is attended to where there is a control symbol.
    """
    num_queries, num_keys = weights.shape[-2:]
    places = _places(num_queries, num_keys).to(weights.device)
    away = (torch.arange(num_keys, device=weights.device) - places[:, None]).abs()  # (queries, keys)
    return {
        "entropy": -torch.xlogy(weights, weights).sum(-1).mean(-1) / torch.tensor(2.0).log() + 0.0,
        "distance": (weights * away).sum(-1).mean(-1),
        "diagonal": _mean_weight_at(weights, places),
        "previous": _mean_weight_at(weights, places - 1),
        "next": _mean_weight_at(weights, places + 1),
        "control": weights[..., control].mean(-1),
    }


def strongest_links(weights: Float[Tensor, "written source_len"]) -> Links:
    """A link (source, target) for each word that is written, from the source word it takes most of.

    Args:
        weights: Without the end symbols.
    """
    if 0 in weights.shape:
        return []
    return sorted((i, j) for j, i in enumerate(weights.argmax(dim=-1).tolist()))


def agreement(links: Links, others: Links) -> float:
    """Twice the links in common by all links of both; 1 less this is the alignment error rate of one kind."""
    total = len(links) + len(others)
    return 2 * len(set(links) & set(others)) / total if total else 0.0


def _places(num_queries: int, num_keys: int) -> Int[Tensor, " queries"]:
    steps = max(1, num_queries - 1)  # in integers, so that a half is always rounded up
    return (2 * torch.arange(num_queries) * (num_keys - 1) + steps) // (2 * steps)


def _mean_weight_at(
    weights: Float[Tensor, "*heads queries keys"], keys: Int[Tensor, " queries"]
) -> Float[Tensor, "*heads"]:
    """The mean weight of query i on `keys[i]`, over the queries for which there is such a key."""
    queries = torch.nonzero((keys >= 0) & (keys < weights.size(-1)))[:, 0]
    if not len(queries):
        return weights.new_zeros(weights.shape[:-2])
    return weights[..., queries, keys[queries]].mean(-1)
