"""The encoder-decoder (paper 3.1), from token ids to hidden states and logits."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig, Role
from allyouneed.model.attention import (
    COMPATIBILITIES,
    AttentionFunction,
    Compatibility,
    CrossAttention,
    SelfAttention,
    SoftmaxAttention,
)
from allyouneed.model.block_heads import BlockHeads
from allyouneed.model.encoder_decoder import EncoderDecoder, build_experts
from allyouneed.model.feed_forward import AttentionOverParameters, FeedForward
from allyouneed.model.guided_alignment import GuidedAttention
from allyouneed.model.initialisation import initialise
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer, NormAndAdd, PositionWise, Residual
from allyouneed.model.masks import (
    ImplicitMask,
    PackedIds,
    PackedMask,
    causal_mask,
    padding_mask,
    real_positions,
)
from allyouneed.model.neighbourhood import NeighbourhoodMask
from allyouneed.model.positional_encoding import Encodings, TargetSpace, build_positions
from allyouneed.model.relative_positions import SCHEMES
from allyouneed.model.ssru import SSRU
from allyouneed.symbols import END, PADDING


class Transformer(EncoderDecoder):
    """The paper's model; see `ModelConfig` for its sizes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        sizes = _attention_sizes(config)
        residual, final_norm = _norms(config)
        self.source_positions: Encodings | TargetSpace = _positions(config)
        if config.target_space:
            self.source_positions = TargetSpace(self.source_positions, config.d_model)
        self.target_positions = _positions(config)
        self.encoder = nn.ModuleList(
            EncoderLayer(SelfAttention(*sizes, _self_attention(config)), _position_wise(config), residual)
            for _ in range(config.num_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                _autoregression(config),
                CrossAttention(*sizes, _cross_attention(config, layer)),
                _position_wise(config),
                residual,
            )
            for layer in range(config.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = final_norm(), final_norm()
        self.block_heads = BlockHeads(config)
        initialise(self)

    def forward(
        self,
        source: Tensor | PackedIds,
        target_input: Int[Tensor, "batch target_len"] | PackedIds,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states as in `EncoderDecoder.forward`; those of packed ids are (1, target tokens, d_model).

        Packed sources are without end symbols if `source_end` is off.
        """
        if isinstance(source, PackedIds) and isinstance(target_input, PackedIds):
            return self._forward_packed(source, target_input)
        assert isinstance(source, Tensor)
        assert isinstance(target_input, Tensor)
        source = self.read_of(source)
        return self.decode(target_input, self.encode(source), padding_mask(source))

    def read_of(self, source: Tensor) -> Tensor:
        """Replace the end symbols of sources by padding if `source_end` is off."""
        if self.config.source_end:
            return source
        is_end = source == END
        is_end[:, 0] = False
        return source.masked_fill(is_end, PADDING)

    def _forward_packed(self, source: PackedIds, target_input: PackedIds) -> Tensor:
        source_mask = PackedMask(source, source, reach=self.config.reach(causal=False))
        memory = self.encode_vectors(self.embed("source", source), source_mask)
        return self._decode_vectors(
            self.embed("target", target_input),
            memory,
            PackedMask(target_input, target_input, causal=True, reach=self.config.reach(causal=True)),
            PackedMask(target_input, source),
        )

    def encode(self, source: Tensor) -> Float[Tensor, "batch source_len d_model"]:
        """The memory of a batch of sources, as `read_of` returns them."""
        return self.encode_vectors(self.embed("source", source), self.self_mask("source", source))

    def encode_vectors(
        self,
        x: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #source_len source_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch source_len d_model"]:
        """The memory of sources that are given as vectors instead of ids."""
        for layer in self.encoder:
            x = layer(x, mask)
        normed: Tensor = self.encoder_norm(x)
        return normed

    def decode(
        self,
        target_input: Int[Tensor, "batch target_len"],
        memory: Float[Tensor, "batch source_len d_model"],
        source_mask: Bool[Tensor, "batch 1 1 source_len"],
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position; no position sees a later one."""
        target_mask = self.self_mask("target", target_input)
        return self._decode_vectors(self.embed("target", target_input), memory, target_mask, source_mask)

    def _decode_vectors(
        self,
        x: Tensor,
        memory: Tensor,
        target_mask: Tensor | ImplicitMask,
        source_mask: Tensor | ImplicitMask,
    ) -> Tensor:
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask)
        normed: Tensor = self.decoder_norm(x)
        return normed

    def self_mask(self, role: Role, ids: Tensor) -> Bool[Tensor, "#batch 1 #length length"] | ImplicitMask:
        """The mask of self-attention on the source or target side."""
        # Padding comes last, so that a causal mask hides it from every real position.
        reach = self.config.reach(causal=role == "target")
        if role == "source":
            return padding_mask(ids) if reach is None else NeighbourhoodMask(real_positions(ids), reach)
        if reach is not None:
            return NeighbourhoodMask(torch.ones_like(ids, dtype=torch.bool), reach)
        return causal_mask(ids.size(1), ids.device)

    def embed(self, role: Role, read: Tensor | PackedIds) -> Float[Tensor, "batch length d_model"]:
        """Embeddings plus positional encodings, with dropout (3.4, 3.5, 5.4)."""
        positions = self.source_positions if role == "source" else self.target_positions
        if isinstance(read, PackedIds):
            ids, encodings = read.ids, positions(read.longest)[read.positions]
        else:
            ids, encodings = read, positions(read.size(1))
        embedded: Tensor = self.dropout(self.embeddings.embed(role, self.symbol_dropout(ids)) + encodings)
        return embedded

    def use_attention(self, attend: AttentionFunction) -> None:
        """Compute equation 1 with `attend` in every layer that does not use a variant."""
        for module in self.modules():
            if isinstance(module, SelfAttention | CrossAttention) and module.plain.is_equation_1:
                module.attend = attend


def _positions(config: ModelConfig) -> Encodings:
    return build_positions(config.positions, config.d_model, config.max_positions)


def _attention_sizes(config: ModelConfig) -> tuple[int, int, int, int, bool]:
    return config.d_model, config.num_heads, *config.head_widths, config.attention_bias


def _autoregression(config: ModelConfig) -> SelfAttention | SSRU:
    if config.autoregression == "ssru":
        return SSRU(config.d_model)
    return SelfAttention(*_attention_sizes(config), _self_attention(config))


def _self_attention(config: ModelConfig) -> SoftmaxAttention:
    relative = SCHEMES[config.positions](config) if config.positions in SCHEMES else None
    return SoftmaxAttention(_compatibility(config), config.attention_dropout, relative)


def _cross_attention(config: ModelConfig, layer: int) -> SoftmaxAttention:
    if config.guided_alignment and layer + 1 == (config.guided_layer or config.decoder_layers):
        return GuidedAttention(
            _compatibility(config), config.attention_dropout, config.ids_per_word, config.guided_alignment
        )
    return SoftmaxAttention(_compatibility(config), config.attention_dropout)


def _compatibility(config: ModelConfig) -> Compatibility:
    return COMPATIBILITIES[config.attention](config.num_heads, config.head_widths[0])


def _position_wise(config: ModelConfig) -> PositionWise:
    if config.feed_forward == "network":
        return FeedForward(config.d_model, config.d_ff, config.feed_forward_dropout, config.activation)
    if config.feed_forward == "experts":
        return build_experts(config)
    return AttentionOverParameters(
        config.d_model,
        config.parameter_heads,
        *config.parameter_head_widths,
        config.parameter_pairs,
        config.feed_forward_dropout,
    )


def _norms(config: ModelConfig) -> tuple[Callable[[], Residual], Callable[[], nn.Module]]:
    """Factories of the residual connection of a sub-layer and of the norm after the last layer."""
    if config.norm == "post":
        return partial(AddAndNorm, config.d_model, config.dropout, config.layer_norm_epsilon), nn.Identity
    return (
        partial(NormAndAdd, config.d_model, config.dropout, config.layer_norm_epsilon),
        partial(nn.LayerNorm, config.d_model, eps=config.layer_norm_epsilon),
    )
