"""Converts the model's weights to those of Hugging Face's Marian model.

Marian differs from the paper's architecture in two ways. Both are compensated by a change of basis of the
residual stream, which sub-layers read from and add to:

- Its sinusoids have all sines before all cosines: the dimensions of the stream are put in that order.
- Its normalisations always add 1e-5 to the variance. `LayerNorm(s x)` with epsilon e equals `LayerNorm(x)`
  with epsilon e / s^2, so the stream is scaled by s = sqrt(1e-5 / epsilon).

Sinusoids cannot be scaled, so the first normalisations of encoder and decoder keep Marian's epsilon. With the
paper's 1e-6 this shrinks their outputs by a few millionths; everything else is exact.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from allyouneed.model import Transformer
from allyouneed.model.attention import SelfAttention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import DecoderLayer, EncoderLayer

MARIAN_EPSILON = 1e-5
"""PyTorch's default epsilon, which Marian uses in every normalisation."""

Named = Iterator[tuple[str, Tensor]]


class _Stream(NamedTuple):
    """The residual stream at some point of Marian: ours times `scale`, with its dimensions in `order`."""

    order: Tensor
    scale: float

    def read(self, weight: Tensor) -> Tensor:
        """Convert a matrix that is applied to our stream into one for Marian's stream."""
        return weight[:, self.order] / self.scale

    def write(self, weight: Tensor) -> Tensor:
        """Convert a matrix or vector that writes our stream into one that writes Marian's."""
        return weight[self.order] * self.scale


def marian_weights(model: Transformer) -> Named:
    """Name and tensor of each Marian weight, for heads of d_model / num_heads and sinusoidal positions."""
    config = model.config
    even_before_odd = torch.arange(config.d_model).view(-1, 2).T.flatten()
    plain = _Stream(even_before_odd, 1.0)
    scaled = _Stream(even_before_odd, math.sqrt(MARIAN_EPSILON / config.layer_norm_epsilon))
    yield from _embeddings(model, plain)
    yield from _stack("model.encoder.layers", list(model.encoder), plain, scaled)
    yield from _stack("model.decoder.layers", list(model.decoder), plain, scaled)


def _embeddings(model: Transformer, stream: _Stream) -> Named:
    """The embeddings; tied ones appear once, under the name that Marian ties the others to."""
    source, target, output = (stream.read(model.embeddings.matrix(r)) for r in ("source", "target", "output"))
    tied = model.config.tied_embeddings
    if tied == "all":
        yield "model.shared.weight", source
    else:
        yield "model.encoder.embed_tokens.weight", source
        yield "model.decoder.embed_tokens.weight", target
    if tied == "none":
        yield "lm_head.weight", output
    bias = model.embeddings.bias
    yield "final_logits_bias", torch.zeros(1, len(output)) if bias is None else bias[None]


def _stack(name: str, layers: Sequence[nn.Module], plain: _Stream, scaled: _Stream) -> Named:
    """Convert the layers of one stack; the stream is scaled from the first normalisation up to the last."""
    for number, layer in enumerate(layers):
        before = plain if number == 0 else scaled
        after = plain if number == len(layers) - 1 else scaled
        parts = _layer(cast("EncoderLayer | DecoderLayer", layer), before, scaled, after, memory=plain)
        yield from ((f"{name}.{number}.{part}", tensor) for part, tensor in parts)


def _layer(
    layer: EncoderLayer | DecoderLayer, before: _Stream, within: _Stream, after: _Stream, memory: _Stream
) -> Named:
    attention = layer.self_attention
    assert isinstance(attention, SelfAttention)
    yield from _reading(
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), attention.query_key_value, before
    )
    yield from _writing("self_attn.out_proj", attention.output, before)
    yield from _writing("self_attn_layer_norm", layer.after_self_attention.norm, within)
    if isinstance(layer, DecoderLayer):
        yield from _reading(("encoder_attn.q_proj",), layer.cross_attention.query, within)
        yield from _reading(
            ("encoder_attn.k_proj", "encoder_attn.v_proj"), layer.cross_attention.key_value, memory
        )
        yield from _writing("encoder_attn.out_proj", layer.cross_attention.output, within)
        yield from _writing("encoder_attn_layer_norm", layer.after_cross_attention.norm, within)
    assert isinstance(layer.feed_forward, FeedForward)
    yield from _reading(("fc1",), layer.feed_forward.inner, within)
    yield from _writing("fc2", layer.feed_forward.outer, within)
    yield from _writing("final_layer_norm", layer.after_feed_forward.norm, after)


def _reading(names: Sequence[str], linear: nn.Linear, stream: _Stream) -> Named:
    """Weights and biases of the equal parts of a linear map that is applied to the stream."""
    weights, biases = linear.weight.chunk(len(names)), _bias(linear).chunk(len(names))
    for name, weight, bias in zip(names, weights, biases, strict=True):
        yield f"{name}.weight", stream.read(weight)
        yield f"{name}.bias", bias


def _writing(name: str, last: nn.Linear | nn.LayerNorm, stream: _Stream) -> Named:
    """Weight and bias of a linear map or normalisation whose output becomes, or is added to, the stream."""
    yield f"{name}.weight", stream.write(last.weight)
    yield f"{name}.bias", stream.write(_bias(last))


def _bias(module: nn.Linear | nn.LayerNorm) -> Tensor:
    return torch.zeros(module.weight.size(0)) if module.bias is None else module.bias
