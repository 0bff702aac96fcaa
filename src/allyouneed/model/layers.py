"""Encoder and decoder layers (paper 3.1): each sub-layer is `LayerNorm(x + Dropout(Sublayer(x)))`."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.dropout import Dropout
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.packing import PackedMask


class AddAndNorm(nn.Module):
    """The residual connection around a sub-layer, and the normalisation after it."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=epsilon)

    def forward(
        self, x: Float[Tensor, "*rows d_model"], sublayer_output: Float[Tensor, "*rows d_model"]
    ) -> Float[Tensor, "*rows d_model"]:
        """`LayerNorm(x + Dropout(sublayer_output))`."""
        normed: Tensor = self.norm(x + self.dropout(sublayer_output))
        return normed


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(
        self, self_attention: SelfAttention, feed_forward: FeedForward, add_and_norm: Callable[[], AddAndNorm]
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.after_self_attention = add_and_norm()
        self.feed_forward = feed_forward
        self.after_feed_forward = add_and_norm()

    def forward(
        self,
        x: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #source_len source_len"] | PackedMask,
    ) -> Float[Tensor, "batch source_len d_model"]:
        """One layer of the encoder."""
        x = self.after_self_attention(x, self.self_attention(x, mask))
        x = self.after_feed_forward(x, self.feed_forward(x))
        return x


class DecoderLayer(nn.Module):
    """Self-attention to what has been written, attention to the memory, then the feed-forward network."""

    def __init__(
        self,
        self_attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: FeedForward,
        add_and_norm: Callable[[], AddAndNorm],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.after_self_attention = add_and_norm()
        self.cross_attention = cross_attention
        self.after_cross_attention = add_and_norm()
        self.feed_forward = feed_forward
        self.after_feed_forward = add_and_norm()

    def forward(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        memory: Float[Tensor, "batch source_len d_model"],
        target_mask: Bool[Tensor, "#batch 1 #target_len target_len"] | PackedMask,
        source_mask: Bool[Tensor, "#batch 1 #target_len source_len"] | PackedMask,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """One layer of the decoder."""
        x = self.after_self_attention(x, self.self_attention(x, target_mask))
        x = self.after_cross_attention(x, self.cross_attention(x, memory, source_mask))
        x = self.after_feed_forward(x, self.feed_forward(x))
        return x
