"""Cost of a layer of Table 1 as its sequence grows: time, memory and FLOPs, with their exponents."""

import contextlib
import math
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.hardware.machine import wait_for
from allyouneed.model.comparison.layer_kinds import ComparedLayer

_LEAST_SECONDS = 0.02
"""Minimum time of a measurement; a shorter computation is repeated until its runs take this long."""


@dataclass(frozen=True)
class Size:
    """Size of an input: number of sequences, their length n, and their width d."""

    batch: int
    n: int
    d: int


@dataclass(frozen=True)
class Cost:
    """Cost of a layer's core, and of the whole layer, at one size."""

    seconds: float
    """Time of the core's forward and backward pass over the whole batch."""
    layer_seconds: float
    bytes: int
    """Peak memory of the core's tensors, forward and backward, without inputs and weights."""
    layer_bytes: int
    flops: int
    """FLOPs of the core's forward pass over one sequence."""
    layer_flops: int


def measure(
    build: Callable[[int, int], ComparedLayer], sizes: Sequence[Size], device: torch.device, num_rounds: int
) -> list[Cost]:
    """Cost of a layer at each size.

    Time is the minimum over several rounds through all sizes, so other load affects all sizes alike.

    Args:
        build: Makes the layer from n and d.
        sizes: Sizes to measure.
        device: Device to compute on.
        num_rounds: Number of rounds through all sizes.
    """
    layers = [build(size.n, size.d).to(device) for size in sizes]
    batches = [torch.randn(size.batch, size.n, size.d, device=device) for size in sizes]
    passes = [_passes(layer, x) for layer, x in zip(layers, batches, strict=True)]
    rounds = [[[_seconds(run, device) for run in of_size] for of_size in passes] for _ in range(num_rounds)]
    least = np.min(rounds, axis=0)  # (sizes, core or layer)
    return [
        Cost(float(of_core), float(of_whole), peak_bytes(core), peak_bytes(whole), *_flops(layer, x[:1]))
        for (of_core, of_whole), (core, whole), layer, x in zip(least, passes, layers, batches, strict=True)
    ]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size with which a cost grows: the slope of a line fitted to their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def crossing(sizes: Sequence[float], costs: Sequence[float], others: Sequence[float]) -> float | None:
    """The size at which two costs are equal, by straight lines fitted to the logarithms of both.

    None if the two grow at about the same rate.
    """
    slope, constant = np.polyfit(np.log(sizes), np.log(costs) - np.log(others), 1)
    return None if abs(slope) < 0.5 else math.exp(-constant / slope)


def peak_bytes(run: Callable[[], object]) -> int:
    """Peak memory in bytes of the tensors that `run` creates.

    The result of each operation counts from its creation until it is freed. Memory that a kernel allocates
    and frees internally is not counted.
    """
    with _LiveTensors() as live:
        run()
    return int(live.peak)


@contextlib.contextmanager
def plain_operations() -> Iterator[None]:
    """Disable fused kernels, so that each matrix product of a layer is a separate operation."""
    with warnings.catch_warnings():
        # For any flag, oneDNN warns that TF32 is for Intel GPUs only.
        warnings.filterwarnings("ignore", message="TF32 acceleration on top of oneDNN")
        with (
            torch.backends.mkldnn.flags(enabled=False),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield


class _LiveTensors(TorchDispatchMode):
    """Tracks the memory of the tensors that operations return; each storage counts once, until freed."""

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
    """Functions that run the forward and backward pass of the core, and of the whole layer."""

    def run(compute: Callable[..., Tensor], inputs: Sequence[Tensor]) -> None:
        found = compute(*inputs)
        of = [*inputs, *layer.parameters()]
        torch.autograd.grad(found, of, torch.ones_like(found), allow_unused=True)

    with torch.no_grad():
        inputs = [part.clone().requires_grad_() for part in layer.inputs(x)]
    return partial(run, layer.core, inputs), partial(run, layer, [x.clone().requires_grad_()])


def _seconds(run: Callable[[], None], device: torch.device) -> float:
    repetitions, taken = 0, 0.0
    begin = time.perf_counter()
    while taken < _LEAST_SECONDS:
        run()
        wait_for(device)
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
