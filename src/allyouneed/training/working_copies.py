"""Copies of a model for the threads of a CPU, with rounded weights and sparse gradients.

An update with them reads and writes less memory.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from queue import SimpleQueue

import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.config.run import Precision
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.native.gradient_kernels import accumulate_
from allyouneed.training.optimizer import trainable


class WorkingCopies:
    """Copies with modules of their own, as modules may remember what they have just computed.

    They have the model's weights, with two exceptions. In bfloat16, the matrices of a Transformer's linear
    maps are copied and rounded once per update, not in every use, and their gradients are not copied to
    float32 before they are added. And each role of an embedding matrix is a parameter of its own. The model
    is in training mode, on the CPU, and its parameters have a `grad` to add to.
    """

    def __init__(self, model: EncoderDecoder, number: int, precision: Precision) -> None:
        self._rounded: list[tuple[nn.Parameter, Tensor]] = []
        if precision == "bfloat16" and isinstance(model, Transformer):  # rivals use a matrix several times
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    low = module.weight.detach().bfloat16()
                    self._rounded.append((nn.Parameter(low, module.weight.requires_grad), module.weight))
        first = _copy(model, {id(weight): rounded for rounded, weight in self._rounded})
        originals: dict[int, Tensor] = {
            id(parameter): original
            for parameter, original in (*self._rounded, *first.embeddings.untie_gradients())
        }
        # Reversed: where roles share a matrix, a backward pass adds the output's gradient first, then the
        # target's, and the source's last, as every architecture reads the source first.
        self._parameters = trainable(first)[::-1]
        self._sums = [_grad_of(originals.get(id(each), each)) for each in self._parameters]
        for parameter, total in zip(self._parameters, self._sums, strict=True):
            if id(parameter) in originals:
                # Without a reference to this object, which could not be freed.
                parameter.register_post_accumulate_grad_hook(partial(_pass_on, total))
        self._idle: SimpleQueue[EncoderDecoder] = SimpleQueue()
        for each in (first, *(_copy(first, {}) for _ in range(number - 1))):
            self._idle.put(each)

    @torch.no_grad()
    def refresh(self) -> None:
        """Round the matrices again, after the model's have changed."""
        for rounded, weight in self._rounded:
            rounded.copy_(weight)

    @contextmanager
    def one(self) -> Iterator[EncoderDecoder]:
        """A copy that no other thread computes with; waits for one."""
        model = self._idle.get()
        try:
            yield model
        finally:
            self._idle.put(model)

    def gradients(self, loss: Float[Tensor, ""]) -> list[tuple[Tensor, Tensor]]:
        """The sums of gradients, each with the part of it that belongs to a loss that a copy has computed.

        `loss.backward()` adds all of them at once, in one thread.
        """
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return [
            (total, gradient)
            for total, gradient in zip(self._sums, found, strict=True)
            if gradient is not None
        ]


def _grad_of(parameter: Tensor) -> Tensor:
    """The gradient of a parameter that has one; of a model's parameter, the sum of all."""
    assert parameter.grad is not None
    return parameter.grad


def _pass_on(total: Tensor, parameter: Tensor) -> None:
    """Add the gradient that a backward pass has written to a parameter that stands for one of the model's."""
    gradient = _grad_of(parameter)
    parameter.grad = None  # first, so that nothing is left after an error
    accumulate_(total, gradient)


def _copy(model: EncoderDecoder, replacements: dict[int, nn.Parameter]) -> EncoderDecoder:
    """A copy with the model's own parameters and buffers, or their replacements by identity."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared | replacements)
