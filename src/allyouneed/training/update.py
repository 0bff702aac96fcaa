"""The gradient of one micro-batch (paper 5.1 to 5.4), the sum of all, and the skipping of bad updates."""

import hashlib
import struct
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.config.run import Precision, TrainingConfig
from allyouneed.data.batch_plans import Batch
from allyouneed.hardware.devices import is_nvidia_since_ampere
from allyouneed.model.attention import (
    AttentionFunction,
    SoftmaxAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from allyouneed.model.dropout import Dropout, drop
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.layers import AddAndNorm, add_and_norm
from allyouneed.model.masks import pack, sent
from allyouneed.model.relative_positions import RotaryPositions, turn_pairs
from allyouneed.native.gradient_kernels import accumulate_
from allyouneed.native.library import library
from allyouneed.symbols import PADDING
from allyouneed.training.block_loss import block_loss
from allyouneed.training.fused_operators import (
    add_and_norm_by_kernel,
    attention_by_kernel,
    drop_by_kernel,
    short_attention_by_kernel,
    turn_pairs_by_kernel,
)
from allyouneed.training.loss import LossSums, projected_loss
from allyouneed.training.optimizer import skips_if_told, step_unless

_WIDEST_FLASH_HEAD = 256
MOST_SKIPPED_IN_A_ROW = 3
"""A run ends after this many skipped updates in a row."""
_ALIGNMENT = 16
HiddenStates = Callable[[EncoderDecoder, Batch, torch.device], Float[Tensor, "target_tokens d_model"]]
"""Computes the hidden states that predict a batch's target tokens, row after row."""


def seed_generators(seed: int, step: int, micro_batch: int) -> None:
    """Seed PyTorch's generators by position in the run, so that a resumed run draws the same numbers.

    Steps count from 1; step 0 stands for initialisation.
    """
    torch.manual_seed(seed_of(seed, step, micro_batch))


def seed_of(seed: int, step: int, micro_batch: int) -> int:
    """The seed of a micro-batch's random numbers; see `seed_generators`."""
    place = struct.pack("<QQQ", seed, step, micro_batch)
    return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "little") >> 1


def use_fastest_operators(model: EncoderDecoder, config: TrainingConfig, *, kernels: bool = True) -> None:
    """Select the fastest attention; on a CPU with the C kernels dropout, residual and rotary positions, too.

    Without `kernels`, all operators are PyTorch's own, which it can compile.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    has_kernels = kernels and on_cpu and library() is not None  # found, or compiled, before threads need it
    attend: AttentionFunction = short_attention_by_kernel if has_kernels else fused_attention
    if on_cpu and config.precision == "bfloat16":
        attend = attention_by_kernel if has_kernels else scaled_dot_product_attention
    model.use_attention(attend)
    for module in model.modules():
        if isinstance(module, AddAndNorm):
            module.combine = add_and_norm_by_kernel if has_kernels else add_and_norm
        elif isinstance(module, Dropout):
            module.drop = drop_by_kernel if has_kernels else drop
        elif isinstance(module, RotaryPositions):
            module.turn_pairs = turn_pairs_by_kernel if has_kernels else turn_pairs


def shares_micro_batches(config: TrainingConfig, device: torch.device) -> bool:
    """Whether each thread computes micro-batches of its own."""
    return device.type == "cpu" and config.threads_share == "micro_batches" and not config.sharded


def batch_loss(
    model: EncoderDecoder,
    batch: Batch,
    smoothing: float,
    precision: Precision,
    hidden_states: HiddenStates | None = None,
    *,
    cached: bool = True,
) -> LossSums:
    """Sum the losses of one micro-batch on the model's device; see `accumulate_gradient`.

    By default, the faster of padded and packed `hidden_states` are computed. Rounded weights are `cached` for
    their next use in the micro-batch, unless threads would share the cache.
    """
    device = next(model.parameters()).device
    if hidden_states is None:
        hidden_states = (
            packed_hidden_states if takes_flash(model, precision, device) else padded_hidden_states
        )
    targets = torch.from_numpy(batch.target_output[batch.target_output != PADDING])
    try:
        with torch.autocast(device.type, torch.bfloat16, precision == "bfloat16", cache_enabled=cached):
            hidden = hidden_states(model, batch, device)
            matrix, bias = model.embeddings.matrix("output"), model.embeddings.bias
            sums = projected_loss(hidden, matrix, sent(targets, device), smoothing, bias)
            if model.config.block > 1:
                ahead = block_loss(model, hidden, batch.target_output, smoothing)
                sums = sums._replace(smoothed=sums.smoothed + ahead)
    finally:
        auxiliary = model.auxiliary_loss()  # collected even after an error, as it holds memory
    return sums if auxiliary is None else sums._replace(smoothed=sums.smoothed + len(targets) * auxiliary)


def can_be_packed(model: EncoderDecoder) -> bool:
    """Whether the model computes the same on sentences that are packed in a row as on padded ones."""
    return (
        model.config.architecture == "transformer"
        and model.config.source_end
        and model.config.front == "embeddings"
        and all(module.is_equation_1 for module in model.modules() if isinstance(module, SoftmaxAttention))
    )


def takes_flash(model: EncoderDecoder, precision: Precision, device: torch.device) -> bool:
    """Whether flash attention can train the model there; it supports no masks, but packed sentences."""
    d_k, d_v = model.config.head_widths
    return (
        can_be_packed(model)
        and is_nvidia_since_ampere(device)
        and precision == "bfloat16"
        and d_k == d_v <= _WIDEST_FLASH_HEAD
        and d_k % 8 == 0
    )


def padded_hidden_states(
    model: EncoderDecoder, batch: Batch, device: torch.device
) -> Float[Tensor, "target_tokens d_model"]:
    """Compute the hidden states that predict the batch's target tokens, row after row."""
    # The positions of real tokens are found on the CPU, as a GPU would have to synchronise.
    real = np.flatnonzero(batch.target_output != PADDING)
    source, target_input, places = (
        sent(torch.from_numpy(ids), device) for ids in (batch.source, batch.target_input, real)
    )
    if batch.guide is not None:
        model.guide(sent(torch.from_numpy(batch.guide), device))
    hidden: Tensor = model(source, target_input)  # (rows, target_len, d_model)
    return hidden.flatten(0, 1)[places]


def packed_hidden_states(
    model: EncoderDecoder, batch: Batch, device: torch.device
) -> Float[Tensor, "target_tokens d_model"]:
    """Compute the same as `padded_hidden_states`, without padding."""
    source, target_input = (pack(torch.from_numpy(ids), device) for ids in (batch.source, batch.target_input))
    hidden: Tensor = model(source, target_input)  # (1, target_tokens, d_model)
    return hidden[0]


def accumulate_gradient(
    model: EncoderDecoder,
    batch: Batch,
    num_target_tokens: float,
    smoothing: float,
    precision: Precision,
    hidden_states: HiddenStates | None = None,
) -> Tensor:
    """Add a micro-batch's part of the gradient of its global batch to the parameters' gradients.

    `num_target_tokens` are those of the *global* batch, so that all tokens weigh the same; infinity gives the
    micro-batch weight zero. Returns the sum of the unsmoothed losses of its target tokens, in nats.
    """
    loss = batch_loss(model, batch, smoothing, precision, hidden_states)
    (loss.smoothed / num_target_tokens).backward()
    return loss.negative_log_likelihood


class Gradients:
    """The gradients of all parameters and the loss in one buffer.

    One sum over the processes and one finiteness check then cover everything. Each parameter's `grad` is a
    view of the buffer: backward passes add to it, and it must not be replaced.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        # Every view is aligned for vector instructions.
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in parameters]
        self.buffer = torch.zeros(sum(sizes) + 1, dtype=parameters[0].dtype, device=parameters[0].device)
        *pieces, loss = self.buffer.split([*sizes, 1])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece[: parameter.numel()].view_as(parameter)
        self.loss = loss[0]
        """Sum of the losses of the batch so far, in nats; a scalar view of the buffer."""

    def clear(self) -> None:
        """Set everything to zero for the next update."""
        self.buffer.zero_()

    def add(self, gradients: Sequence[tuple[Tensor, Tensor]], loss: Tensor) -> None:
        """Add the gradients of a micro-batch, each to its view of the buffer, and the loss."""
        for view, gradient in gradients:
            accumulate_(view, gradient)
        self.loss += loss


class FiniteWatch:
    """Skips updates whose gradient or loss is not finite or too large; after three in a row, all.

    A gradient is too large if its square overflows: a second moment would be infinite from then on. The check
    runs on the gradients' device, so the host need not wait, unless the optimizer's kernel ignores
    the result. Once the watch has halted, the weights stay those of the last good update.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        is_fused = optimizer.defaults.get("fused")
        self._optimizer = optimizer
        self._must_wait = not (is_fused and skips_if_told(type(optimizer), device))  # type: ignore[arg-type]
        self._counts = torch.zeros(3, dtype=torch.int64, device=device)

    def update(self, buffer: Tensor, step: int) -> None:
        """Step the optimizer if all of `buffer`, its gradients, and the sum of its squares are finite."""
        in_row, skipped, halted_at = self._counts.clone().unbind()
        bad = (~torch.linalg.vector_norm(buffer).isfinite()).long()
        halted = (halted_at > 0).long()
        in_row = (in_row + 1) * bad
        halted_at = torch.where((halted == 0) & (in_row >= MOST_SKIPPED_IN_A_ROW), step, halted_at)
        self._counts.copy_(torch.stack((in_row, skipped + bad, halted_at)))
        # If this is 1, the fused kernel leaves weights, moments and its step count unchanged.
        skips = torch.maximum(bad, halted).float()
        if not self._must_wait:
            step_unless(skips, self._optimizer)
        elif not skips:
            self._optimizer.step()

    def counts(self) -> list[int]:
        """Updates skipped in a row, skipped in total, and the step of the halt or 0; waits for the device."""
        return [*map(int, self._counts.tolist())]

    def restore(self, counts: list[int]) -> None:
        """Continue from the result of `counts`."""
        self._counts.copy_(torch.tensor(counts))
