"""How a layer of Table 1 connects positions, found from the layer: what reaches what, in how many steps.

*Sequential operations* are the longest chain of matrix products, each of which needs the result of the one
before, in the graph that PyTorch records while it computes the layer.

*Path length* counts rounds. In one round every position does at once what the layer does at a position: it
attends, convolves, or computes its cell from the state that its neighbour had in the round before. So
information goes through one operation a round; a path is as long as the rounds until a change of its input
position changes its output position. For layers that do all in one operation, rounds are stacked layers.
"""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool
from torch import Tensor

from allyouneed.model.comparison.layers import ComparedLayer
from allyouneed.paper.layer_costs import plain_operations

_PRODUCTS = ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution")
_WIDTH, _NUM_DRAWS = 16, 2
"""So many that rectified linear units, each closed half the time, do not close all ways by chance."""
Stack = Callable[[int, int, int], ComparedLayer]
"""Makes the layer of a stack from n, d, and its place in the stack, from 0."""


def sequential_operations(build: Stack, n: int) -> int:
    """The longest chain of dependent matrix products with which one layer computes a sequence of n."""
    layer = build(n, _WIDTH, 0)
    with plain_operations():
        return longest_chain_of_products(layer(torch.randn(1, n, _WIDTH, requires_grad=True)))


def longest_chain_of_products(found: Tensor) -> int:
    """Of the operations by which a tensor was computed, the most matrix products one after the other."""
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
    """After one round, two, ..: which input positions reach which output positions; until no more do."""
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
    """The rounds until every input position reaches every output position that is not before it.

    It is infinite where that never happens. Positions before it are left out, as a recurrent layer goes one
    way, and another the other way.
    """
    for number, reach in enumerate(reach_by_round(build, n), start=1):
        if torch.equal(reach.triu(), torch.ones_like(reach).triu()):
            return number
    return math.inf


def _reach(layers: list[ComparedLayer], n: int) -> Bool[Tensor, "inputs outputs"]:
    """By the gradient of each output position, computed in sequences of its own."""
    x = torch.randn(_NUM_DRAWS * n, n, _WIDTH, dtype=torch.float64, requires_grad=True)
    states = layers[0].after_rounds(x, layers[1:]).unflatten(0, (_NUM_DRAWS, n))
    of_each = states.diagonal(dim1=1, dim2=2)  # (draws, d, n): output i of sequence i
    (gradient,) = torch.autograd.grad(of_each, x, torch.randn_like(of_each))
    of_draws: Tensor = gradient.ne(0).any(-1).unflatten(0, (_NUM_DRAWS, n))  # (draws, outputs, inputs)
    return of_draws.any(0).T
