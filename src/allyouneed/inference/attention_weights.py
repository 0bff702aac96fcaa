"""The attention weights of every layer and head (paper 3.2, figures 3 to 5), and measures of a head."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.data.vectors import with_end
from allyouneed.data.words import Span
from allyouneed.errors import UsageError
from allyouneed.inference.alignment import Links
from allyouneed.inference.torch_engine import pad
from allyouneed.model.attention import CrossAttention, SelfAttention, SoftmaxAttention, positions_of
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.model.masks import ImplicitMask
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import START


@dataclass(frozen=True)
class AttentionWeights:
    """Attention weights of every layer and head; rows are queries and sum to 1.

    Source positions are the source's tokens and its end symbol, which models with `source_end = false` read
    only of empty sources. Target positions are the decoder's inputs: the start symbol and the target's
    tokens; each row serves to predict the next token.
    """

    encoder: Float[Tensor, "layers heads source_len source_len"]
    decoder: Float[Tensor, "layers heads target_len target_len"]
    """No layers if the decoder has recurrent units in the place of self-attention."""
    cross: Float[Tensor, "layers heads target_len source_len"]


def only_model(models: Sequence[EncoderDecoder]) -> EncoderDecoder:
    """Return the only model.

    Raises:
        UsageError: There are several models.
    """
    if len(models) > 1:
        raise UsageError("attention is that of one model, and here are several; load the one to look into")
    return models[0]


@torch.no_grad()
def capture_attention(
    model: EncoderDecoder, source_ids: Sequence[int], target_ids: Sequence[int]
) -> AttentionWeights:
    """Compute the attention weights of `model` for a source and a target, both without control symbols.

    The model itself is not modified, so other threads may translate with it at the same time.

    Raises:
        UsageError: The model is not a Transformer.
    """
    if not isinstance(model, Transformer):
        raise UsageError(
            f"attention is shown of a Transformer, not of a model with model.architecture = "
            f"{model.config.architecture}"
        )
    twin = _twin(model)
    encoder_layers = cast("list[EncoderLayer]", list(twin.encoder))
    decoder_layers = cast("list[DecoderLayer]", list(twin.decoder))
    in_decoder = [layer.self_attention for layer in decoder_layers]
    recorded = [
        _record([layer.self_attention for layer in encoder_layers]),
        _record([each for each in in_decoder if isinstance(each, SelfAttention)]),
        _record([layer.cross_attention for layer in decoder_layers]),
    ]
    device = next(model.parameters()).device
    read = with_end(source_ids) if model.config.source_end or not source_ids else source_ids
    twin(pad([read], device), pad([[START, *target_ids]], device))
    length = 1 + len(target_ids)
    none = torch.empty(0, model.config.num_heads, length, length)
    return AttentionWeights(
        *((torch.cat(of_kind) if of_kind else none).float().cpu() for of_kind in recorded)
    )


def _twin(model: Transformer) -> Transformer:
    """Copy the modules but share the parameters, so that changes to the copy are invisible elsewhere."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def _record(modules: Sequence[SelfAttention | CrossAttention]) -> list[Tensor]:
    """Make `modules` append their attention weights to a list; return the list."""
    recorded: list[Tensor] = []

    def attend(
        plain: SoftmaxAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | ImplicitMask
    ) -> Tensor:
        recorded.append(plain.weights(query, key, mask))
        return plain.mixture(recorded[-1], value, positions_of(mask, query, key))

    for module in modules:
        module.attend = partial(attend, module.plain)
    return recorded


def merge_pieces(
    weights: Float[Tensor, "*heads queries keys"], queries: list[Span], keys: list[Span]
) -> Float[Tensor, "*heads query_words key_words"]:
    """Merge attention weights between pieces into weights between words; rows still sum to 1.

    Weights are summed over the pieces of a key and averaged over those of a query (Clark et al. 2019, section
    4.1). `queries` and `keys` are the half-open spans of pieces of each word.
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

    Rows of weights sum to 1; `control` is the index of the control symbol among the keys, if there is one.
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

    The weights are without the end symbols.
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
