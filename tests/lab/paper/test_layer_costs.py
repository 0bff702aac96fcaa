"""Costs of layers: FLOPs and memory beside sums by hand, and exponents of made-up costs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from allyouneed.lab.paper.layer_costs import Size, crossing, exponent, measure, peak_bytes
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    Convolutional,
    FullSelfAttention,
    FullyConnected,
    PositionWise,
    Recurrent,
    RestrictedSelfAttention,
    SeparableConvolutional,
)

CPU = torch.device("cpu")
BY_HAND: dict[str, tuple[Callable[[int, int], ComparedLayer], Callable[[int, int], int]]] = {
    "full": (lambda n, d: FullSelfAttention(d), lambda n, d: 2 * 2 * n * n * d),
    "restricted": (  # blocks of 32 with 4 keys before and 3 after them
        lambda n, d: RestrictedSelfAttention(d, 8),
        lambda n, d: 2 * 2 * n * (32 + 4 + 3) * d,
    ),
    "recurrent": (lambda n, d: Recurrent(d), lambda n, d: 2 * 8 * n * d * d),
    "convolutional": (lambda n, d: Convolutional(d, 5), lambda n, d: 2 * 5 * n * d * d),
    "separable": (lambda n, d: SeparableConvolutional(d, 5), lambda n, d: 2 * 5 * n * d + 2 * n * d * d),
    "position-wise": (lambda n, d: PositionWise(d), lambda n, d: 2 * 2 * 4 * n * d * d),
    "fully connected": (lambda n, d: FullyConnected(d, n), lambda n, d: 2 * n * n * d * d),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_flops_of_a_core_are_two_a_multiply_add(name: str) -> None:
    build, by_hand = BY_HAND[name]
    [cost] = measure(build, [Size(2, 64, 12)], CPU, 3)
    assert cost.flops == by_hand(64, 12)
    projections = 2 * 4 * 64 * 12 * 12 if name in ("full", "restricted") else 0
    assert cost.layer_flops == cost.flops + projections
    assert 0 < cost.seconds < 60
    assert 0 < cost.bytes < cost.layer_bytes


def test_the_memory_of_restricted_attention_is_linear_in_the_length() -> None:
    sizes = [Size(1, n, 64) for n in (512, 1_024, 2_048)]
    costs = measure(lambda n, d: RestrictedSelfAttention(d, 32), sizes, CPU, 3)
    for of_each in ([cost.bytes for cost in costs], [cost.layer_bytes for cost in costs]):
        assert exponent([size.n for size in sizes], of_each) == pytest.approx(1, abs=0.02)


def test_the_memory_of_a_layer_is_of_all_that_is_around_its_core() -> None:
    class Doubling(ComparedLayer):
        """A core that returns one tensor more between what is around it."""

        def core(self, *inputs: Tensor) -> Tensor:
            return inputs[0] * 2

    n, d = 50, 20
    [cost] = measure(lambda n, d: Doubling(d), [Size(1, n, d)], CPU, 3)
    matrix = 4 * n * d
    assert cost.bytes == 3 * matrix, "the result, the gradients of the result and of the input"
    [wider] = measure(lambda n, d: Doubling(d), [Size(2, n, d)], CPU, 3)
    assert wider.layer_bytes > 1.8 * cost.layer_bytes
    assert cost.layer_bytes >= cost.bytes + matrix, "the sum is kept for the normalisation's gradient"


def test_the_peak_is_of_tensors_that_are_there_together() -> None:
    x = torch.zeros(1_000)  # 4,000 bytes, which were there before

    def one_after_the_other() -> None:
        for _ in range(5):
            x.add(1).view(10, 100).t()

    def together() -> list[Tensor]:
        return [x.add(i) for i in range(5)]

    def as_autograd_keeps_them() -> None:
        y = x.clone().requires_grad_()
        for _ in range(5):
            y = y.exp()  # whose results the backward pass needs

    assert peak_bytes(one_after_the_other) == 4_000
    assert peak_bytes(together) == 20_000
    assert peak_bytes(as_autograd_keeps_them) == 24_000
    assert peak_bytes(lambda: x.mul_(2)) == 0


def test_the_exponent_is_the_power() -> None:
    sizes = [32, 64, 256]
    assert exponent(sizes, [5 * n**1.5 for n in sizes]) == pytest.approx(1.5)


def test_costs_cross_where_they_are_equal() -> None:
    sizes = [32, 64, 256]
    linear, square = [100.0 * n for n in sizes], [2.0 * n * n for n in sizes]
    assert crossing(sizes, linear, square) == pytest.approx(50)
    assert crossing(sizes, linear, [3 * cost for cost in linear]) is None
