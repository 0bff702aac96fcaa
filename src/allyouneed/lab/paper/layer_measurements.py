"""Measurements of a layer of Table 1: its cost as the sequence grows, and how it connects positions.

*Cost* is time, memory and FLOPs, with their exponents.

*Sequential operations* is the length of the longest chain of dependent matrix products in the graph that
PyTorch records while it computes the layer.

*Path length* counts rounds. In one round, all positions attend, convolve, or compute their cell from the
state that their neighbour had in the round before: information passes through one operation. The length of a
path is the number of rounds until a change of its input changes its output. For layers that compute all
positions at once, rounds are layers.
"""

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
from jaxtyping import Bool
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
class LayerCost:
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
) -> list[LayerCost]:
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
        LayerCost(float(of_core), float(of_whole), peak_bytes(core), peak_bytes(whole), *_flops(layer, x[:1]))
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


# Paths and chains of operations

_PRODUCTS = ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution")
_WIDTH, _NUM_DRAWS = 16, 2
"""Large enough that rectified linear units, each off half the time, do not block every path by chance."""
Stack = Callable[[int, int, int], ComparedLayer]
"""Makes a layer of a stack from n, d, and its index in the stack, from 0."""


def sequential_operations(build: Stack, n: int) -> int:
    """Length of the longest chain of dependent matrix products of one layer on a sequence of length n."""
    layer = build(n, _WIDTH, 0)
    with plain_operations():
        return longest_chain_of_products(layer(torch.randn(1, n, _WIDTH, requires_grad=True)))


def longest_chain_of_products(found: Tensor) -> int:
    """Length of the longest chain of dependent matrix products that computed a tensor."""
    chains: dict[object, int] = {}
    waiting = [found.grad_fn]
    while waiting:  # not by recursion: chains are as long as sequences
        node = waiting[-1]
        assert node is not None
        before = [other for other, _ in node.next_functions if other is not None]
        if unknown := [other for other in before if other not in chains]:
            waiting += unknown
            continue
        name = node.name().removesuffix("0").removesuffix("Backward")
        chains[node] = max((chains[other] for other in before), default=0) + (name in _PRODUCTS)
        waiting.pop()
    return chains[found.grad_fn]


def reach_by_round(build: Stack, n: int) -> Iterator[Bool[Tensor, "inputs outputs"]]:
    """The output positions that each input position reaches after 1, 2, .. rounds, until none is added."""
    torch.manual_seed(0)
    layers: list[ComparedLayer] = []
    before = torch.zeros(n, n, dtype=torch.bool)
    while True:
        layers.append(build(n, _WIDTH, len(layers)).double())
        found = _reach(partial(layers[0].after_rounds, above=layers[1:]), n)
        if torch.equal(found, before):
            return
        yield found
        before = found


def path_length(build: Stack, n: int) -> float:
    """Number of rounds until every input position reaches itself and all later output positions.

    Infinite if that never happens. Earlier positions do not count: a recurrent layer passes information in
    one direction only. Reach grows with each round, so the number is found by doubling, then by bisection.
    """
    torch.manual_seed(0)
    layers: list[ComparedLayer] = []

    def reach_after(num_rounds: int) -> Bool[Tensor, "inputs outputs"]:
        layers.extend(build(n, _WIDTH, place).double() for place in range(len(layers), num_rounds))
        return _reach(partial(layers[0].after_rounds, above=layers[1:num_rounds]), n)

    def is_complete(reach: Bool[Tensor, "inputs outputs"]) -> bool:
        return torch.equal(reach.triu(), torch.ones_like(reach).triu())

    fewest, most, before = 0, 1, torch.zeros(n, n, dtype=torch.bool)
    while not is_complete(reach := reach_after(most)):
        if torch.equal(reach, before):
            return math.inf
        fewest, most, before = most, 2 * most, reach
    while most - fewest > 1:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if is_complete(reach_after(middle)) else (middle, most)
    return most


def receptive_field(build: Stack, n: int) -> int:
    """The largest number of input positions that influence one output position of a single layer."""
    torch.manual_seed(0)
    return int(_reach(build(n, _WIDTH, 0).double(), n).sum(0).max())


def _reach(compute: Callable[[Tensor], Tensor], n: int) -> Bool[Tensor, "inputs outputs"]:
    """Reach by the gradients of the output positions, each computed in its own sequences."""
    x = torch.randn(_NUM_DRAWS * n, n, _WIDTH, dtype=torch.float64, requires_grad=True)
    states = compute(x).unflatten(0, (_NUM_DRAWS, n))
    of_each = states.diagonal(dim1=1, dim2=2)  # (draws, d, n): output i of sequence i
    (gradient,) = torch.autograd.grad(of_each, x, torch.randn_like(of_each))
    of_draws: Tensor = gradient.ne(0).any(-1).unflatten(0, (_NUM_DRAWS, n))  # (draws, outputs, inputs)
    return of_draws.any(0).T
