"""What a layer of Table 1 costs as its sequence grows: time, memory, FLOPs, and the exponents of each."""

import contextlib
import math
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.model.comparison.layers import ComparedLayer

_NUM_ROUNDS = 15
_LEAST_SECONDS = 0.02
"""Shorter computations are repeated until they take as long together."""


@dataclass(frozen=True)
class Size:
    """Of what is computed: sequences, their length n, and their width d."""

    batch: int
    n: int
    d: int


@dataclass(frozen=True)
class Cost:
    """Of the core of a layer, and of the whole layer, at one size."""

    seconds: float
    """Of forward and backward pass of the core, of the whole batch."""
    layer_seconds: float
    bytes: int
    """The most that tensors of the core hold at once, forward and backward, without inputs and weights."""
    layer_bytes: int
    flops: int
    """Of the core, forward, of one sequence."""
    layer_flops: int


def measure(
    build: Callable[[int, int], ComparedLayer], sizes: Sequence[Size], device: torch.device
) -> list[Cost]:
    """What a layer costs at each size.

    Time is the least of several rounds through all sizes, so that what else a machine does meets all alike.

    Args:
        build: Makes the layer from n and d.
        sizes: At which.
        device: Where.
    """
    layers = [build(size.n, size.d).to(device) for size in sizes]
    batches = [torch.randn(size.batch, size.n, size.d, device=device) for size in sizes]
    passes = [_passes(layer, x) for layer, x in zip(layers, batches, strict=True)]
    rounds = [[[_seconds(run, device) for run in of_size] for of_size in passes] for _ in range(_NUM_ROUNDS)]
    least = np.min(rounds, axis=0)  # (sizes, core or layer)
    return [
        Cost(float(of_core), float(of_whole), peak_bytes(core), peak_bytes(whole), *_flops(layer, x[:1]))
        for (of_core, of_whole), (core, whole), layer, x in zip(least, passes, layers, batches, strict=True)
    ]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size with which a cost grows: the slope of a line through their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def crossing(sizes: Sequence[float], costs: Sequence[float], others: Sequence[float]) -> float | None:
    """The size at which two costs are equal, by straight lines through the logarithms of either.

    None where the two grow alike.
    """
    slope, constant = np.polyfit(np.log(sizes), np.log(costs) - np.log(others), 1)
    return None if abs(slope) < 0.5 else math.exp(-constant / slope)


def peak_bytes(run: Callable[[], object]) -> int:
    """The most bytes that tensors which `run` makes hold at once.

    Counted are the results of all operations from when they are made until nobody has them; what a kernel
    needs inside and gives back before it ends is not seen.
    """
    with _LiveTensors() as live:
        run()
    return int(live.peak)


@contextlib.contextmanager
def plain_operations() -> Iterator[None]:
    """No fused kernels inside, so that every product of a layer is an operation of its own."""
    with warnings.catch_warnings():
        # Whatever flag is set, oneDNN's answer is that TF32 is for GPUs of Intel.
        warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")
        with (
            torch.backends.mkldnn.flags(enabled=False),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield


class _LiveTensors(TorchDispatchMode):
    """Sums up the memory of what operations return, each storage once, until it is freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {self._place(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and (place := self._place(tensor)) not in given | self._seen:
                storage = tensor.untyped_storage()
                self._seen.add(place)
                self.now += storage.nbytes()
                weakref.finalize(storage, self._free, place, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return result

    @staticmethod
    def _place(tensor: Tensor) -> int:
        return int(tensor.untyped_storage().data_ptr())

    def _free(self, place: int, num_bytes: int) -> None:
        self._seen.discard(place)
        self.now -= num_bytes


def _passes(layer: ComparedLayer, x: Tensor) -> tuple[Callable[[], None], Callable[[], None]]:
    """What computes forward and backward pass of the core, and of the whole layer."""
    with torch.no_grad():
        inputs = [part.clone().requires_grad_() for part in layer.inputs(x)]
    x = x.clone().requires_grad_()

    def core() -> None:
        _backward(layer.core(*inputs), [*inputs, *layer.parameters()])

    def whole() -> None:
        _backward(layer(x), [x, *layer.parameters()])

    return core, whole


def _backward(found: Tensor, of: Sequence[Tensor]) -> None:
    torch.autograd.grad(found, of, torch.ones_like(found), allow_unused=True)


def _seconds(run: Callable[[], None], device: torch.device) -> float:
    repetitions, taken = 0, 0.0
    begin = time.perf_counter()
    while taken < _LEAST_SECONDS:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        repetitions += 1
        taken = time.perf_counter() - begin
    return taken / repetitions


@torch.no_grad()
def _flops(layer: ComparedLayer, x: Tensor) -> tuple[int, int]:
    with plain_operations():
        inputs = layer.inputs(x)
        with FlopCounterMode(display=False) as core:
            layer.core(*inputs)
        with FlopCounterMode(display=False) as whole:
            layer(x)
    return core.get_total_flops(), whole.get_total_flops()
