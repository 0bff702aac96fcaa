"""The attention weights of every layer and head (paper 3.2, figures 3 to 5)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.errors import UsageError
from allyouneed.inference.engine import pad
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention, SoftmaxAttention
from allyouneed.model.evaluation_mode import evaluation_mode
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.model.masks import ImplicitMask
from allyouneed.symbols import END, START


@dataclass(frozen=True)
class AttentionWeights:
    """What each position takes of each other; rows are queries and sum to 1.

    Source positions are the source's tokens and its end symbol. Target positions are what the decoder reads:
    the start symbol and the target's tokens; the row of each is used to predict the token after it.
    """

    encoder: Float[Tensor, "layers heads source_len source_len"]
    decoder: Float[Tensor, "layers heads target_len target_len"]
    cross: Float[Tensor, "layers heads target_len source_len"]


def capture_attention(
    model: EncoderDecoder, source_ids: Sequence[int], target_ids: Sequence[int]
) -> AttentionWeights:
    """The weights with which `model` reads a source and writes a target, both without control symbols.

    Raises:
        UsageError: It is no Transformer.
    """
    if not isinstance(model, Transformer):
        raise UsageError(
            f"attention is shown of a Transformer, not of a model with model.architecture = "
            f"{model.config.architecture}"
        )
    encoder_layers = cast("list[EncoderLayer]", list(model.encoder))
    decoder_layers = cast("list[DecoderLayer]", list(model.decoder))
    device = next(model.parameters()).device
    with (
        evaluation_mode(model),
        _recording([layer.self_attention for layer in encoder_layers]) as encoder,
        _recording([layer.self_attention for layer in decoder_layers]) as decoder,
        _recording([layer.cross_attention for layer in decoder_layers]) as cross,
    ):
        model(pad([[*source_ids, END]], device), pad([[START, *target_ids]], device))
    return AttentionWeights(*(torch.cat(kind).float().cpu() for kind in (encoder, decoder, cross)))


@contextmanager
def _recording(modules: Sequence[SelfAttention | CrossAttention]) -> Iterator[list[Tensor]]:
    """A list to which the weights that `modules` compute inside are appended."""
    recorded: list[Tensor] = []

    def attend(
        plain: SoftmaxAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | ImplicitMask
    ) -> Tensor:
        recorded.append(plain.weights(query, key, mask))
        return recorded[-1].to(value.dtype) @ value

    attends = [module.attend for module in modules]
    try:
        for module in modules:
            module.attend = partial(attend, module.plain)
        yield recorded
    finally:
        for module, previous in zip(modules, attends, strict=True):
            module.attend = previous
