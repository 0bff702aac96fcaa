"""Copies of a model for threads of a CPU, made so that less memory is read and written for an update."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from queue import SimpleQueue

import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.config.run import Precision
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.native.gradients import accumulate_
from allyouneed.training.freezing import trainable


class WorkingCopies:
    """Copies with modules of their own, as modules may remember what they have just computed.

    They have the model's weights, with two exceptions. In bfloat16, the matrices of a Transformer's linear
    maps are copied and rounded once per update, not in every use, and their gradients are not copied to
    float32 before they are added. And each role of an embedding matrix is a parameter of its own.

    Args:
        model: Model in training mode, on the CPU; its parameters have a `grad` to add to.
        number: Number of copies.
        precision: Precision of the matrix products.
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
        # Reversed: a backward pass comes first to the output matrix, then to what is looked up in it.
        self._parameters = trainable(first)[::-1]
        self._originals = {id(each): originals.get(id(each), each) for each in self._parameters}
        for parameter in self._parameters:
            if id(parameter) in originals:
                parameter.register_post_accumulate_grad_hook(self._pass_on)
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

    def _pass_on(self, parameter: Tensor) -> None:
        of_all, gradient = self._originals[id(parameter)].grad, parameter.grad
        if of_all is not None and gradient is not None:
            accumulate_(of_all, gradient)
        parameter.grad = None

    def gradients(self, loss: Float[Tensor, ""]) -> list[tuple[Tensor, Tensor]]:
        """The gradients of a loss that a copy has computed, each with the sum that it belongs to.

        `loss.backward()` adds them at once, in one thread.
        """
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        sums = (self._originals[id(parameter)].grad for parameter in self._parameters)
        return [
            (of_all, gradient)
            for of_all, gradient in zip(sums, found, strict=True)
            if of_all is not None and gradient is not None
        ]


def _copy(model: EncoderDecoder, replacements: dict[int, nn.Parameter]) -> EncoderDecoder:
    """A copy with the model's own parameters and buffers, or their replacements by identity."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared | replacements)
