"""Dropout (paper 5.4), with a mask that is cheap to draw, and dropout of symbols."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.symbols import PADDING, SENTINEL, START


class _OfThread(threading.local):
    generator: torch.Generator | None = None


_OF_THREAD = _OfThread()


def generator() -> torch.Generator | None:
    """The generator of this thread, on the CPU; None is PyTorch's own, as always in compiled code."""
    return None if torch.compiler.is_compiling() else _OF_THREAD.generator


@contextmanager
def drawing_from(stream: torch.Generator) -> Iterator[None]:
    """Let the modules of the model draw from `stream` in this thread."""
    before, _OF_THREAD.generator = _OF_THREAD.generator, stream
    try:
        yield
    finally:
        _OF_THREAD.generator = before


_LEVELS = 1 << 16
_DRAWS_PER_WORD = 4


class Dropout(nn.Module):
    """Sets elements to zero with probability `rate` while training, and divides the others by 1 - rate."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.drop: Callable[[Tensor, float], Tensor] = drop
        """Computes the result in training from x and a rate above 0."""

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements of `x`; the identity outside training."""
        return self.drop(x, self.rate) if self.training and self.rate else x


def drop(x: Float[Tensor, "*shape"], rate: float) -> Float[Tensor, "*shape"]:
    """Set elements to zero with probability `rate`, and divide the others by 1 - rate."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, rate)
    return _SixteenBitDropout.apply(x, rate)  # type: ignore[no-any-return, no-untyped-call]


class SymbolDropout(nn.Module):
    """Replaces token ids, except padding, with the sentinel with probability `rate` while training.

    It is in the paper's source, not in its text. It applies to the model's input, not to the labels. The
    start symbol stays, because the authors' code drops target symbols before it inserts the start.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, ids: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        """Drop symbols of `ids`; the identity outside training."""
        if not self.training or self.rate == 0.0:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device, generator=generator()) < self.rate
        return ids.masked_fill(dropped & (ids != PADDING) & (ids != START), SENTINEL)


class _SixteenBitDropout(torch.autograd.Function):
    """Dropout on the CPU with a mask of 16 random bits for each element, four per draw of the generator.

    There, drawing dominates the cost of dropout; `bernoulli_` draws one number per element.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        words = torch.empty(-(-x.numel() // _DRAWS_PER_WORD), dtype=torch.int64)
        words.random_(-(2**63), None, generator=generator())
        draws = words.view(torch.int16)[: x.numel()].view(x.shape)
        # Deviation: the rate is rounded to a multiple of 2^-16; see docs/paper.md.
        dropped = min(round(rate * _LEVELS), _LEVELS - 1)
        mask = (draws >= dropped - _LEVELS // 2).to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient * mask, None


@contextmanager
def evaluation_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Disable dropout and gradients of a model, given all its modules, inside the block."""
    in_training = [module for module in modules if module.training]
    for module in in_training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in in_training:
            module.training = True
