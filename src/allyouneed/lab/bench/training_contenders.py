"""The training steps that `bench train` compares: ours, and other software's on models of the same size.

A step is complete: forward, label-smoothed loss, backward, Adam. The peers compute a batch in one piece, as
their own examples do; ours is computed in micro-batches, as `train` does.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.hardware.allocator import keep_freed_memory
from allyouneed.lab.bench.contenders import OURS
from allyouneed.model.position_tables import sinusoids
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, START
from allyouneed.training.optimizer import build_optimizer, learning_rate
from allyouneed.training.team import team_of
from allyouneed.training.update import (
    FiniteWatch,
    Gradients,
    accumulate_gradient,
    seed_generators,
    use_fastest_operators,
)


class TrainingContender(Protocol):
    """A model in training."""

    @property
    def model(self) -> nn.Module:
        """The model being trained."""

    def step(self, batch: Batch) -> Tensor:
        """Take one step; return the batch's mean loss per target token before the step, in nats."""


class OurStep:
    """The step of `allyouneed train`, on batches split into micro-batches by rows."""

    def __init__(self, config: RunConfig, device: torch.device) -> None:
        keep_freed_memory()  # as `train` does; the peers run unchanged
        self._config, self._num_steps = config, 0
        self.model = Transformer(config.model).to(device).train()
        use_fastest_operators(self.model, config.training)
        self._optimizer = build_optimizer(self.model, config.training)
        self._gradients = Gradients(list(self.model.parameters()))
        self._watch = FiniteWatch(self._optimizer, device)
        smoothing = config.training.label_smoothing
        self._team = team_of(self.model, self._gradients, config.training, smoothing)

    def step(self, batch: Batch) -> Tensor:
        """Take one step; return the loss without label smoothing."""
        training, tokens = self._config.training, batch.num_target_tokens
        self._num_steps += 1
        self._gradients.clear()
        num_parts = -(-training.batch_tokens // training.resolved_micro_batch_tokens())
        parts = cut_rows(batch, num_parts)
        if self._team:
            self._team.add_up(enumerate(map(nullcontext, parts)), self._num_steps, tokens)
        else:
            for number, part in enumerate(parts):
                seed_generators(training.seed, self._num_steps, number)
                self._gradients.loss += accumulate_gradient(
                    self.model, part, tokens, training.label_smoothing, training.precision
                )
        _set_learning_rate(self._optimizer, self._num_steps, self._config)
        self._watch.update(self._gradients.buffer, self._num_steps)
        loss: Tensor = self._gradients.loss / tokens
        return loss


class PlainStep:
    """The step of a peer: logits of the whole batch, PyTorch's cross-entropy, Adam.

    Args:
        model: Module from source ids (rows, source_len) and target ids (rows, target_len) to logits
            (rows, target_len, vocab).
        config: Training settings.
        device: Device to compute on.
        fused: Whether to use fused Adam, as Hugging Face's trainer does; tutorials leave the default.
    """

    def __init__(self, model: nn.Module, config: RunConfig, device: torch.device, fused: bool) -> None:
        training = config.training
        self._config, self._device, self._num_steps = config, device, 0
        self.model = model.to(device).train()
        self._optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=0.0,
            betas=(training.adam_beta1, training.adam_beta2),
            eps=training.adam_epsilon,
            fused=fused or None,
        )

    def step(self, batch: Batch) -> Tensor:
        """Take one step; return the label-smoothed loss."""
        source, target_input, target_output = (
            torch.from_numpy(ids).to(self._device, non_blocking=True)
            for ids in (batch.source, batch.target_input, batch.target_output)
        )
        training = self._config.training
        self._num_steps += 1
        _set_learning_rate(self._optimizer, self._num_steps, self._config)
        self._optimizer.zero_grad()
        with torch.autocast(self._device.type, torch.bfloat16, enabled=training.precision == "bfloat16"):
            logits = self.model(source, target_input)
            loss = functional.cross_entropy(
                logits.flatten(0, 1),
                target_output.flatten(),
                ignore_index=PADDING,
                label_smoothing=training.label_smoothing,
            )
        loss.backward()
        self._optimizer.step()
        return loss.detach()


class TutorialTransformer(nn.Module):
    """`torch.nn.Transformer` as in tutorials: two embeddings times sqrt(d_model), sinusoids, a projection."""

    positions: Tensor

    def __init__(self, config: ModelConfig, longest: int) -> None:
        super().__init__()
        self._scale = math.sqrt(config.d_model)
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            d_model=config.d_model,
            nhead=config.num_heads,
            num_encoder_layers=config.num_layers,
            num_decoder_layers=config.num_layers,
            dim_feedforward=config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )
        self.projection = nn.Linear(config.d_model, config.target_vocab_size)
        self.register_buffer("positions", torch.from_numpy(sinusoids(longest, config.d_model)))

    def forward(
        self, source: Int[Tensor, "rows source_len"], target: Int[Tensor, "rows target_len"]
    ) -> Float[Tensor, "rows target_len vocab"]:
        """The logits of each next target token."""
        length = target.size(1)
        future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(diagonal=1)
        source_padding, target_padding = source == PADDING, target == PADDING
        hidden = self.transformer(
            self._embed(self.source_embedding, source),
            self._embed(self.target_embedding, target),
            tgt_mask=future,
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
        )
        logits: Tensor = self.projection(hidden)
        return logits

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(embedding(ids) * self._scale + self.positions[: ids.size(1)])
        return embedded


class MarianTransformer(nn.Module):
    """Hugging Face's `MarianMTModel`; source, target and logits share one embedding."""

    def __init__(self, config: ModelConfig, longest: int) -> None:
        from transformers import MarianConfig, MarianMTModel

        super().__init__()
        self.marian = MarianMTModel(
            MarianConfig(
                vocab_size=config.target_vocab_size,
                d_model=config.d_model,
                encoder_layers=config.num_layers,
                decoder_layers=config.num_layers,
                encoder_ffn_dim=config.d_ff,
                decoder_ffn_dim=config.d_ff,
                encoder_attention_heads=config.num_heads,
                decoder_attention_heads=config.num_heads,
                dropout=config.dropout,
                activation_function="relu",
                scale_embedding=True,
                max_position_embeddings=longest,
                pad_token_id=PADDING,
                decoder_start_token_id=START,
                eos_token_id=END,
                forced_eos_token_id=None,
                use_cache=False,
            )
        )

    def forward(
        self, source: Int[Tensor, "rows source_len"], target: Int[Tensor, "rows target_len"]
    ) -> Float[Tensor, "rows target_len vocab"]:
        """The logits of each next target token."""
        logits: Tensor = self.marian(
            input_ids=source, attention_mask=source != PADDING, decoder_input_ids=target
        ).logits
        return logits


Build = Callable[[RunConfig, int, torch.device], TrainingContender]
"""Builds a contender. Arguments: configuration, length of the longest sentence in tokens, device."""

CONTENDERS: dict[str, Build] = {
    OURS: lambda config, longest, device: OurStep(config, device),
    "tutorial": lambda config, longest, device: PlainStep(
        TutorialTransformer(config.model, longest), config, device, fused=False
    ),
    "marian": lambda config, longest, device: PlainStep(
        MarianTransformer(config.model, longest), config, device, fused=True
    ),
}
"""Name on the command line -> its builder."""


def cut_rows(batch: Batch, num_parts: int) -> list[Batch]:
    """Split the batch into at most `num_parts` micro-batches of equally many rows and unchanged padding."""
    return [
        Batch(
            batch.source[rows],
            batch.target_input[rows],
            batch.target_output[rows],
            int((batch.target_output[rows] != PADDING).sum()),
            batch.pairs[rows],
        )
        for rows in np.array_split(np.arange(len(batch.pairs)), min(num_parts, len(batch.pairs)))
    ]


def _set_learning_rate(optimizer: torch.optim.Optimizer, step: int, config: RunConfig) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, config)
