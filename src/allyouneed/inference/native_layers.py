"""Packs the encoder and the decoder of the paper's model (3.1) for the native kernels."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import nn

from allyouneed.model import Transformer
from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.embedding import Role
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import DecoderLayer, EncoderLayer, Residual
from allyouneed.model.positional_encoding import NoEncodings
from allyouneed.model.relative_positions import LinearBiases, RotaryPositions
from allyouneed.model.ssru import SSRU
from allyouneed.native.attention_kernels import Heads
from allyouneed.native.linear import PackedLinear
from allyouneed.native.stack import Layer, Norm, PackedStack, StackSettings, Sublayer, Tables, cells
from allyouneed.symbols import START

_FIRST_POSITIONS = 512


def pack_linear(linear: nn.Linear, form: str, threads: int, *, relu: bool = False) -> PackedLinear:
    """Pack a linear map, with its weights rounded to `form`."""
    return PackedLinear(linear.weight, linear.bias, form, relu=relu, num_threads=threads)


def pack_stack(model: Transformer, role: Role, form: str, threads: int) -> PackedStack:
    """Pack the encoder, of role "source", or the decoder, with the weights of its maps rounded to `form`."""
    config = model.config
    layers = cast("Sequence[EncoderLayer]", model.encoder if role == "source" else model.decoder)
    norm = model.encoder_norm if role == "source" else model.decoder_norm
    matrix = model.embeddings.matrix(role).detach().float().contiguous()
    own = layers[0].self_attention
    return PackedStack(
        matrix,
        model.embeddings.scale,
        cells(config.d_model) if isinstance(own, SSRU) else pack_heads(own, form),
        [_pack_layer(layer, form, threads) for layer in layers],
        _pack_norm(norm) if isinstance(norm, nn.LayerNorm) else None,
        StackSettings(
            pre_norm=config.norm == "pre",
            activation=config.activation,
            zero_token=START if role == "target" and config.decoder_start == "zeros" else None,
            threads=threads,
        ),
        pack_heads(layers[0].cross_attention, form) if isinstance(layers[0], DecoderLayer) else None,
    )


def pack_heads(attention: SelfAttention | CrossAttention, form: str) -> Heads:
    """The heads of an attention, whose keys and values are stored in `form`."""
    scheme = attention.plain.relative
    return Heads(
        attention.num_heads,
        attention.d_k,
        attention.d_v,
        form,
        scheme.slopes() if isinstance(scheme, LinearBiases) else None,
    )


class PositionTables:
    """The tables of one side of a model, which grow with the longest sequence seen."""

    def __init__(self, model: Transformer, role: Role) -> None:
        self._encode = model.source_positions if role == "source" else model.target_positions
        layers = cast("Sequence[EncoderLayer]", model.encoder if role == "source" else model.decoder)
        own = layers[0].self_attention
        self._scheme = None if isinstance(own, SSRU) else own.plain.relative
        self._d_k = model.config.head_widths[0]
        learned = model.config.positions == "learned"
        self._most = model.config.max_positions if learned else None
        self._made = 0, Tables()

    def covering(self, length: int) -> Tables:
        """Tables of at least the first `length` positions."""
        num_positions, tables = self._made  # together, as other threads may replace them
        if length > num_positions:
            num_positions = max(length, min(2 * length + _FIRST_POSITIONS, self._most or 2**62))
            tables = self._make(num_positions)
            self._made = num_positions, tables
        return tables

    def _make(self, length: int) -> Tables:
        encodings = angles = None
        if not isinstance(self._encode, NoEncodings):
            encodings = self._encode(length).detach().float().contiguous()
        if isinstance(self._scheme, RotaryPositions):
            # Turning (1, 0) gives cosine and sine.
            pairs = torch.tensor([1.0, 0.0]).repeat(length, self._d_k // 2)[None, None]
            angles = self._scheme.turn(pairs, torch.arange(length)[None])[0, 0].contiguous()
        return Tables(encodings, angles)


def _pack_layer(layer: EncoderLayer | DecoderLayer, form: str, threads: int) -> Layer:
    def sublayer(first: nn.Linear, last: nn.Linear, residual: Residual, *, relu: bool = False) -> Sublayer:
        return Sublayer(
            pack_linear(first, form, threads, relu=relu),
            pack_linear(last, form, threads),
            _pack_norm(residual.norm),
        )

    first, network, crossing = layer.self_attention, layer.feed_forward, None
    assert isinstance(network, FeedForward)
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        crossing = sublayer(cross.query, cross.output, layer.after_cross_attention)
    if isinstance(first, SSRU):
        own = Sublayer(_pack_unit(first, form, threads), None, _pack_norm(layer.after_self_attention.norm))
    else:
        own = sublayer(first.query_key_value, first.output, layer.after_self_attention)
    return Layer(
        own,
        crossing,
        sublayer(network.inner, network.outer, layer.after_feed_forward, relu=network.activate is torch.relu),
    )


def _pack_unit(unit: SSRU, form: str, threads: int) -> PackedLinear:
    """The forget gates and the candidates as one map."""
    weight = torch.cat([unit.forget.weight, unit.candidate.weight])
    bias = torch.cat([unit.forget.bias, torch.zeros_like(unit.forget.bias)])
    return PackedLinear(weight, bias, form, num_threads=threads)


def _pack_norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach().float().clone(), norm.bias.detach().float().clone(), norm.eps)
