"""Attention with one head that learns the word alignment (Garg et al. 2019, arXiv:1909.02074)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from allyouneed.model.attention import Compatibility, SoftmaxAttention
from allyouneed.model.experts import AuxiliaryLoss
from allyouneed.model.masks import ImplicitMask, Positions

_LEAST = 1e-6
"""Smaller weights are raised to this before the logarithm."""


class GuidedAttention(AuxiliaryLoss, SoftmaxAttention):
    """Attention from a target to a source, of which the first head learns the alignment in training.

    It learns to look at the source of the token that the decoder writes next, as the guide of a batch tells
    it. Without a guide, for data in which every word has the same number of ids, it is the source ids of the
    same word.

    Args:
        compatibility: Function that compares queries with keys.
        dropout: Dropout rate of the weights.
        ids_per_word: Number of ids per word in source and target, if there is no guide.
        loss_weight: Weight of the alignment loss, a mean over the batch.

    Attributes:
        guide: Weights to learn in the next forward pass, (batch, target_len, source_len); see
            `AlignmentGuide`.
    """

    def __init__(
        self, compatibility: Compatibility, dropout: float, ids_per_word: int, loss_weight: float
    ) -> None:
        super().__init__(compatibility, dropout)
        self.ids_per_word, self.loss_weight = ids_per_word, loss_weight
        self.guide: Tensor | None = None

    @property
    def is_equation_1(self) -> bool:
        """Always False: faster implementations keep no weights to learn from."""
        return False

    def weights(
        self,
        query: Float[Tensor, "batch heads query_len d_k"],
        key: Float[Tensor, "batch heads key_len d_k"],
        mask: Bool[Tensor, "#batch 1 #query_len key_len"] | ImplicitMask,
        positions: Positions | None = None,
    ) -> Float[Tensor, "batch heads query_len key_len"]:
        """The weight of each key's value for each query, before dropout."""
        weights = super().weights(query, key, mask, positions)
        if self.training:
            assert isinstance(mask, Tensor)
            if self.guide is None:
                loss = alignment_loss(weights[:, 0], mask[:, 0, 0], self.ids_per_word)
            else:
                loss, self.guide = guided_loss(weights[:, 0], self.guide), None
            self._loss = self.loss_weight * loss
        return weights


def alignment_loss(
    weights: Float[Tensor, "batch target_len source_len"],
    is_source: Bool[Tensor, "batch source_len"],
    ids_per_word: int,
) -> Float[Tensor, ""]:
    """Mean over all steps but the last of `-log` of a step's weight on the ids of its own word.

    It is 0 if there are no such steps.

    Args:
        weights: Attention weights of one head.
        is_source: False at padding; the last id of a source is its end symbol.
        ids_per_word: Number of ids per word: step t and source id t belong to word t // ids_per_word.
    """
    words_of_steps, words_of_ids = (
        torch.arange(length, device=weights.device) // ids_per_word for length in weights.shape[1:]
    )
    of_own_word = (weights.float() * (words_of_steps[:, None] == words_of_ids)).sum(-1)
    num_ids = is_source.sum(-1, keepdim=True) - 1
    is_step = torch.arange(weights.size(1), device=weights.device) < num_ids  # (batch, target_len)
    return -(of_own_word.clamp_min(_LEAST).log() * is_step).sum() / is_step.sum().clamp_min(1)


def guided_loss(
    weights: Float[Tensor, "batch target_len source_len"], guide: Float[Tensor, "batch target_len source_len"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy of a head's weights to those of a guide, over the steps that the guide knows.

    It is 0 if there are no such steps.
    """
    of_steps = -(guide * weights.float().clamp_min(_LEAST).log()).sum(-1)
    return of_steps.sum() / (guide.sum(-1) > 0).sum().clamp_min(1)
