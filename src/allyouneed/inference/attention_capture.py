"""The attention weights of every layer and head (paper 3.2, figures 3 to 5)."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.errors import UsageError
from allyouneed.inference.engine import pad
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention, SoftmaxAttention, positions_of
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.model.masks import ImplicitMask
from allyouneed.symbols import END, START


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
    read = [*source_ids, END] if model.config.source_end or not source_ids else source_ids
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
