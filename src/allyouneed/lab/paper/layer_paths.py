"""How a layer of Table 1 connects positions, measured on the layer itself.

*Sequential operations* is the length of the longest chain of dependent matrix products in the graph that
PyTorch records while it computes the layer.

*Path length* counts rounds. In one round, all positions apply the layer's operation at the same time: they
attend, convolve, or compute their cell from the state that their neighbour had in the round before. So
information passes through one operation per round, and the length of a path is the number of rounds until
a change of its input changes its output. For layers that compute all positions at once, rounds are layers.
"""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool
from torch import Tensor

from allyouneed.lab.paper.layer_costs import plain_operations
from allyouneed.model.comparison.layer_kinds import ComparedLayer

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
        found = _reach(layers, n)
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
        return _reach(layers[:num_rounds], n)

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


def _reach(layers: list[ComparedLayer], n: int) -> Bool[Tensor, "inputs outputs"]:
    """Reach by the gradients of the output positions, each computed in its own sequences."""
    x = torch.randn(_NUM_DRAWS * n, n, _WIDTH, dtype=torch.float64, requires_grad=True)
    states = layers[0].after_rounds(x, layers[1:]).unflatten(0, (_NUM_DRAWS, n))
    of_each = states.diagonal(dim1=1, dim2=2)  # (draws, d, n): output i of sequence i
    (gradient,) = torch.autograd.grad(of_each, x, torch.randn_like(of_each))
    of_draws: Tensor = gradient.ne(0).any(-1).unflatten(0, (_NUM_DRAWS, n))  # (draws, outputs, inputs)
    return of_draws.any(0).T
