"""What training, validation, checkpoints and decoding need of a model, whatever it is made of."""

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.model.attention import AttentionFunction
from allyouneed.model.auxiliary_loss import AuxiliaryLoss
from allyouneed.model.dropout import Dropout, SymbolDropout
from allyouneed.model.embedding import Embeddings, Role
from allyouneed.model.experts import Experts
from allyouneed.model.packing import PackedIds
from allyouneed.model.rivals.convolution import Convolution

State = tuple[Tensor, ...]
"""What a decoder keeps of the tokens it has read: tensors (sentences, beams, ...), none of which grows."""


class EncoderDecoder(nn.Module, ABC):
    """A model that reads a source, and a target from its start, and says what comes next.

    Its decoder computes hidden states of width d_model. They are projected by a matrix of its embeddings, and
    by nothing else, so that the loss may do that in its own way.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(
            config.d_model,
            config.source_vocab_size,
            config.target_vocab_size,
            config.tied_embeddings,
            config.decoder_start,
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
            source: Token ids with the end symbol, padded at the end; packed ones only where the model says.
            target_input: The start symbol and the target's token ids, likewise.
        """

    def project(self, hidden: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocab"]:
        """The logits of the next token (3.4); the projection has no bias."""
        return functional.linear(hidden, self.embeddings.matrix("output"))

    def use_attention(self, attend: AttentionFunction) -> None:
        """Compute equation 1 by another function, wherever it is computed."""

    def auxiliary_loss(self) -> Float[Tensor, ""] | None:
        """What parts of the model want to have minimised too, after a forward pass in training.

        It is in nats a target token of the batch, and is given once, as it holds on to all that was computed.
        None if there is no such part.
        """
        found = [part.take_loss() for part in self.modules() if isinstance(part, AuxiliaryLoss)]
        losses = [loss for loss in found if loss is not None]
        return torch.stack(losses).sum() if losses else None


def build_experts(config: ModelConfig) -> Experts:
    """The experts that the settings describe."""
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
    """What a decoder is given of some sources."""

    mask: Bool[Tensor, "sentences memory_len"]
    """True where there is something; each row begins with that, and has at least one."""
    parts: tuple[Tensor, ...]
    """(sentences, memory_len, ...) each."""


class StepwiseModel(EncoderDecoder):
    """A model whose decoder goes from token to token with a state of bounded size.

    `forward` and `step` are the same function of the tokens; the one has all at once.
    """

    def forward(
        self,
        source: Int[Tensor, "batch source_len"] | PackedIds,
        target_input: Int[Tensor, "batch target_len"] | PackedIds,
    ) -> Float[Tensor, "batch target_len d_model"]:
        """The same as for `EncoderDecoder`, from padded ids."""
        assert isinstance(source, Tensor)
        assert isinstance(target_input, Tensor)
        hidden = self.decode(target_input, self.encode(source))
        return hidden.to(self.embeddings.matrix("target").dtype)  # a loss is a sum of too many for bfloat16

    @abstractmethod
    def encode(self, source: Int[Tensor, "batch source_len"]) -> Memory:
        """What the decoder needs of a batch of sources."""

    @abstractmethod
    def decode(
        self, target_input: Int[Tensor, "batch target_len"], memory: Memory
    ) -> Float[Tensor, "batch target_len d_model"]:
        """Hidden states of every target position, none of which sees a later one."""

    @abstractmethod
    def first_state(self, num_sentences: int, beam_size: int) -> State:
        """The state in which nothing has been read, on the model's device."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, "sentences beams"], state: State, memory: Memory
    ) -> tuple[Float[Tensor, "sentences beams d_model"], State]:
        """Read one more token of each of several targets of each sentence.

        Returns:
            The hidden states from which the next tokens are predicted, and the new state.
        """

    def frozen(self) -> "StepwiseModel":
        """The same model, for as long as its weights do not change: what is made of them alone is kept.

        Its modules are its own, and its parameters those of this one.
        """
        shared = {id(tensor): tensor for tensor in (*self.parameters(), *self.buffers())}
        model = copy.deepcopy(self, shared)
        for module in model.modules():
            if isinstance(module, Convolution):
                module.freeze()
        return model

    def read(self, role: Role, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """The embeddings of unit variance, without dropout of their elements."""
        return self.embeddings.embed(role, self.symbol_dropout(ids))

    def zeros(self, *shape: int) -> Tensor:
        """On the device of the weights, and of their type."""
        return self.embeddings.matrix("target").new_zeros(shape)
