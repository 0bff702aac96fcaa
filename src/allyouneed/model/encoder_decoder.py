"""The interface of every model to training, validation, checkpoints and decoding."""

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig, Role
from allyouneed.model.attention import AttentionFunction
from allyouneed.model.dropout import Dropout, SymbolDropout
from allyouneed.model.embedding import Embeddings
from allyouneed.model.experts import AuxiliaryLoss, Experts
from allyouneed.model.guided_alignment import GuidedAttention
from allyouneed.model.masks import PackedIds
from allyouneed.model.rivals.convolution import Convolution

State = tuple[Tensor, ...]
"""The state of a decoder after the tokens it has read: tensors (sentences, beams, ...) of constant size."""


class EncoderDecoder(nn.Module, ABC):
    """A model that predicts the next target token from a source and the target tokens so far.

    Its decoder computes hidden states of width d_model. Logits are their product with one embedding matrix,
    with a bias or without, and nothing else, so that a loss can compute the product in its own way.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(
            config.d_model,
            *config.vocab_sizes,
            config.tied_embeddings,
            config.decoder_start,
            scaled=config.scaled_embeddings,
            output_bias=config.output_bias,
        )
        self.symbol_dropout = SymbolDropout(config.symbol_dropout)
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def forward(
        self,
        source: Int[Tensor, "batch source_len"] | PackedIds,
        target_input: Int[Tensor, "batch target_len"] | PackedIds,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states from which each next target token is predicted, before their projection.

        Args:
            source: Token ids with the end symbol, padded at the end; packed ids if the model supports them.
            target_input: The start symbol and the target's token ids, padded or packed like `source`.
        """

    def project(self, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        """The logits of the next token (3.4)."""
        return self.embeddings.logits(hidden)

    def use_attention(self, attend: AttentionFunction) -> None:
        """Compute equation 1 with `attend` wherever the model computes it."""

    def guide(self, weights: Float[Tensor, "batch target_len source_len"]) -> None:
        """Let heads that learn the alignment learn these weights in the next forward pass."""
        for part in self.modules():
            if isinstance(part, GuidedAttention):
                part.guide = weights

    def auxiliary_loss(self) -> Float[Tensor, ""] | None:
        """The sum of the model's auxiliary losses in the last forward pass in training; None if it has none.

        The unit is nats per target token of the batch. Each sum is returned once, because it keeps the graph
        of its forward pass in memory.
        """
        found = [part.take_loss() for part in self.modules() if isinstance(part, AuxiliaryLoss)]
        losses = [loss for loss in found if loss is not None]
        return torch.stack(losses).sum() if losses else None


def build_experts(config: ModelConfig) -> Experts:
    """Build the mixture of experts that `config` describes."""
    return Experts(
        config.d_model,
        config.d_ff,
        config.num_experts,
        config.experts_per_token,
        config.expert_balance,
        config.feed_forward_dropout,
    )


@dataclass(frozen=True)
class Memory:
    """The encoded sources that a decoder reads."""

    mask: Bool[Tensor, "sentences memory_len"]
    """True at valid positions; they come first in each row, and each row has at least one."""
    parts: tuple[Tensor, ...]
    """(sentences, memory_len, ...) each."""


class StepwiseModel(EncoderDecoder):
    """A model whose decoder can read token by token, with a state of constant size.

    `forward` and `step` compute the same function of the tokens; `forward` reads all of them at once.
    """

    def forward(
        self,
        source: Int[Tensor, "batch source_len"] | PackedIds,
        target_input: Int[Tensor, "batch target_len"] | PackedIds,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states as in `EncoderDecoder.forward`, from padded ids only."""
        assert isinstance(source, Tensor)
        assert isinstance(target_input, Tensor)
        hidden = self.decode(target_input, self.encode(source))
        return hidden.to(self.embeddings.matrix("target").dtype)  # a loss sums too many terms for bfloat16

    @abstractmethod
    def encode(self, source: Int[Tensor, "batch source_len"]) -> Memory:
        """Encode a batch of sources for the decoder."""

    @abstractmethod
    def decode(
        self, target_input: Int[Tensor, "batch target_len"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position; no position sees a later one."""

    @abstractmethod
    def first_state(self, num_sentences: int, beam_size: int) -> State:
        """The state before any token has been read, on the model's device."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, "sentences beams"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "sentences beams d_model"], State]:
        """Read one more token of each of several targets of each sentence.

        Returns the hidden states from which the next tokens are predicted, and the new state.
        """

    def frozen(self) -> "StepwiseModel":
        """A copy that caches whatever depends on the weights alone; use it only while they do not change.

        The copy has its own modules, but shares the parameters of this model.
        """
        shared = {id(tensor): tensor for tensor in (*self.parameters(), *self.buffers())}
        model = copy.deepcopy(self, shared)
        for module in model.modules():
            if isinstance(module, Convolution):
                module.freeze()
        return model

    def read(self, role: Role, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Embeddings of unit variance, after symbol dropout but without dropout of their elements."""
        return self.embeddings.embed(role, self.symbol_dropout(ids))

    def zeros(self, *shape: int) -> Tensor:
        """Zeros with the device and type of the weights."""
        return self.embeddings.matrix("target").new_zeros(shape)
