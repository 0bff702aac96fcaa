"""Encoder and decoder layers (paper 3.1): each sub-layer is `LayerNorm(x + Dropout(Sublayer(x)))`."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn

from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.dropout import Dropout
from allyouneed.model.experts import Experts
from allyouneed.model.feed_forward import AttentionOverParameters, FeedForward
from allyouneed.model.masks import ImplicitMask
from allyouneed.model.ssru import SSRU

PositionWise = FeedForward | AttentionOverParameters | Experts
Sublayer = Callable[[Tensor], Tensor]
Combine = Callable[[Tensor, Tensor, Dropout, nn.LayerNorm], Tensor]


def add_and_norm(
    x: Float[Tensor, "*rows d_model"], y: Float[Tensor, "*rows d_model"], dropout: Dropout, norm: nn.LayerNorm
) -> Float[Tensor, "*rows d_model"]:
    """`LayerNorm(x + Dropout(y))`."""
    normed: Tensor = norm(x + dropout(y))
    return normed


class AddAndNorm(nn.Module):
    """The residual connection around a sub-layer, and the normalisation after it."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.combine: Combine = add_and_norm
        """Computes the result from x and the sub-layer's output."""

    def forward(
        self, x: Float[Tensor, "*rows d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "*rows d_model"]:
        """`LayerNorm(x + Dropout(Sublayer(x)))`."""
        return self.combine(x, sublayer(x), self.dropout, self.norm)


class NormAndAdd(nn.Module):
    """Pre-norm: the normalisation before a sub-layer, and the residual connection around both.

    The authors' later code uses it, with one more normalisation after the last layer.
    """

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=epsilon)

    def forward(
        self, x: Float[Tensor, "*rows d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "*rows d_model"]:
        """`x + Dropout(Sublayer(LayerNorm(x)))`."""
        added: Tensor = x + self.dropout(sublayer(self.norm(x)))
        return added


Residual = AddAndNorm | NormAndAdd


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(
        self, self_attention: SelfAttention, feed_forward: PositionWise, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.after_self_attention = residual()
        self.feed_forward = feed_forward
        self.after_feed_forward = residual()

    def forward(
        self,
        x: Float[Tensor, "batch source_len d_model"],
        mask: Bool[Tensor, "#batch 1 #source_len source_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch source_len d_model"]:
        """One layer of the encoder."""
        x = self.after_self_attention(x, partial(self.self_attention, mask=mask))
        x = self.after_feed_forward(x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    """Self-attention to the target so far, attention to the memory, then the feed-forward network.

    A recurrent unit may take the place of self-attention.
    """

    def __init__(
        self,
        self_attention: SelfAttention | SSRU,
        cross_attention: CrossAttention,
        feed_forward: PositionWise,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.after_self_attention = residual()
        self.cross_attention = cross_attention
        self.after_cross_attention = residual()
        self.feed_forward = feed_forward
        self.after_feed_forward = residual()

    def forward(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        memory: Float[Tensor, "batch source_len d_model"],
        target_mask: Bool[Tensor, "#batch 1 #target_len target_len"] | ImplicitMask,
        source_mask: Bool[Tensor, "#batch 1 #target_len source_len"] | ImplicitMask,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """One layer of the decoder."""
        attend_to_target = partial(self.self_attention, mask=target_mask)
        attend_to_memory = partial(self.cross_attention, memory=memory, mask=source_mask)
        return self.forward_with(x, attend_to_target, attend_to_memory)

    def forward_with(
        self,
        x: Float[Tensor, "batch target_len d_model"],
        attend_to_target: Sublayer,
        attend_to_memory: Sublayer,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """One layer of the decoder, with functions that replace self- and cross-attention."""
        x = self.after_self_attention(x, attend_to_target)
        x = self.after_cross_attention(x, attend_to_memory)
        x = self.after_feed_forward(x, self.feed_forward)
        return x
