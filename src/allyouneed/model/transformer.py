"""The encoder-decoder (paper 3.1), from token ids to hidden states and logits."""

from functools import partial

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config import ModelConfig
from allyouneed.model.attention import AttentionFunction, CrossAttention, SelfAttention
from allyouneed.model.dropout import Dropout
from allyouneed.model.embedding import Embeddings, Role
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.initialisation import initialise
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer
from allyouneed.model.masks import causal_mask, padding_mask
from allyouneed.model.packing import PackedIds, PackedMask
from allyouneed.model.positional_encoding import LearnedPositions, SinusoidalPositions


class Transformer(nn.Module):
    """The paper's model; see `ModelConfig` for its sizes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d_model, (d_k, d_v) = config.d_model, config.head_widths
        attention_sizes = d_model, config.num_heads, d_k, d_v, config.attention_bias
        add_and_norm = partial(AddAndNorm, d_model, config.dropout, config.layer_norm_epsilon)
        self.embeddings = Embeddings(
            d_model, config.source_vocab_size, config.target_vocab_size, config.tied_embeddings
        )
        self.source_positions = _positions(config)
        self.target_positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            EncoderLayer(SelfAttention(*attention_sizes), FeedForward(d_model, config.d_ff), add_and_norm)
            for _ in range(config.num_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                SelfAttention(*attention_sizes),
                CrossAttention(*attention_sizes),
                FeedForward(d_model, config.d_ff),
                add_and_norm,
            )
            for _ in range(config.num_layers)
        )
        initialise(self)

    def forward(
        self,
        source: Int[Tensor, "batch source_len"] | PackedIds,
        target_input: Int[Tensor, "batch target_len"] | PackedIds,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states from which each next target token is predicted, before their projection.

        Args:
            source: Token ids with the end symbol, padded at the end, or packed.
            target_input: The start symbol and the target's token ids, likewise. Packed, the hidden states
                are (1, target tokens, d_model).
        """
        if isinstance(source, PackedIds) and isinstance(target_input, PackedIds):
            return self._forward_packed(source, target_input)
        assert isinstance(source, Tensor)
        assert isinstance(target_input, Tensor)
        return self.decode(target_input, self.encode(source), padding_mask(source))

    def _forward_packed(self, source: PackedIds, target_input: PackedIds) -> Tensor:
        memory = self.encode_vectors(self._embed_packed("source", source), PackedMask(source, source))
        return self._decode_vectors(
            self._embed_packed("target", target_input),
            memory,
            PackedMask(target_input, target_input, causal=True),
            PackedMask(target_input, source),
        )

    def encode(self, source: Int[Tensor, "batch source_len"]) -> Float[Tensor, "batch source_len d_model"]:
        """The memory of a batch of sources."""
        return self.encode_vectors(self.embed("source", source), padding_mask(source))

    def encode_vectors(
        self,
        x: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #source_len source_len"] | PackedMask,
    ) -> Float[Tensor, "batch source_len d_model"]:
        """The memory of sources that come as vectors in place of ids."""
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def decode(
        self,
        target_input: Int[Tensor, "batch target_len"],
        memory: Float[Tensor, "batch source_len d_model"],
        source_mask: Bool[Tensor, "batch 1 1 source_len"],
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position, none of which sees a later one."""
        # Padding comes last, so the causal mask alone keeps it from every real position.
        target_mask = causal_mask(target_input.size(1), target_input.device)
        return self._decode_vectors(self.embed("target", target_input), memory, target_mask, source_mask)

    def _decode_vectors(
        self, x: Tensor, memory: Tensor, target_mask: Tensor | PackedMask, source_mask: Tensor | PackedMask
    ) -> Tensor:
        for layer in self.decoder:
            x = layer(x, memory, target_mask, source_mask)
        return x

    def embed(self, role: Role, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Embeddings plus positional encodings, with dropout (3.4, 3.5, 5.4)."""
        positions = self.source_positions if role == "source" else self.target_positions
        embedded: Tensor = self.dropout(self.embeddings.embed(role, ids) + positions(ids.size(1)))
        return embedded

    def _embed_packed(self, role: Role, packed: PackedIds) -> Tensor:
        positions = self.source_positions if role == "source" else self.target_positions
        encodings = positions(packed.longest)[packed.positions]
        embedded: Tensor = self.dropout(self.embeddings.embed(role, packed.ids) + encodings)
        return embedded

    def project(self, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        """The logits of the next token (3.4); the projection has no bias."""
        return functional.linear(hidden, self.embeddings.matrix("output"))

    def use_attention(self, attend: AttentionFunction) -> None:
        """Compute equation 1 by another function in every layer."""
        for module in self.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                module.attend = attend


def _positions(config: ModelConfig) -> SinusoidalPositions | LearnedPositions:
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.d_model)
    return LearnedPositions(config.max_positions, config.d_model)
