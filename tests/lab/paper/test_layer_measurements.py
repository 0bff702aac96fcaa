"""Costs and paths of layers are those that one counts with a pencil: FLOPs, memory, exponents, chains."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from allyouneed.lab.paper.layer_measurements import (
    Size,
    crossing,
    exponent,
    longest_chain_of_products,
    measure,
    path_length,
    peak_bytes,
    reach_by_round,
    receptive_field,
    sequential_operations,
)
from allyouneed.lab.paper.layer_types import TYPES, R
from allyouneed.model.comparison.layer_kinds import (
    ComparedLayer,
    ConvolutionalLayer,
    FullSelfAttention,
    FullyConnected,
    PositionWise,
    RecurrentLayer,
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
    "recurrent": (lambda n, d: RecurrentLayer(d), lambda n, d: 2 * 8 * n * d * d),
    "convolutional": (lambda n, d: ConvolutionalLayer(d, 5), lambda n, d: 2 * 5 * n * d * d),
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


STACKS = {layer.name: layer for layer in TYPES}


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("n", [2, 5, 10, 19])
def test_the_path_length_found_is_the_table_s(name: str, n: int) -> None:
    assert path_length(STACKS[name].stack, n) == STACKS[name].path(n)


def test_the_table_s_path_lengths_are_as_in_the_paper() -> None:
    assert [STACKS["dilated"].path(n) for n in (3, 4, 9, 10, 27, 81, 82)] == [1, 2, 2, 3, 3, 4, 5]  # log_3
    assert [STACKS["convolutional"].path(n) for n in (3, 4, 5, 6, 65)] == [1, 2, 2, 3, 32]  # (n - 1) / 2
    assert [STACKS["restricted"].path(n) for n in (5, 6, 9, 10)] == [1, 2, 2, 3]  # (n - 1) / 4
    assert STACKS["position_wise"].path(7) == math.inf


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("n", [10, 19])
def test_the_receptive_field_found_is_that_of_the_draft(name: str, n: int) -> None:
    assert receptive_field(STACKS[name].stack, n) == STACKS[name].receptive_field(n)


def test_a_neighbourhood_does_not_depend_on_the_length() -> None:
    assert path_length(STACKS["restricted"].stack, 70) == STACKS["restricted"].path(70) == 18  # 69 / 4
    layers = [STACKS["restricted"].build(n, 64) for n in (32, 70)]
    assert [layer.r for layer in layers if isinstance(layer, RestrictedSelfAttention)] == [R, R]


@pytest.mark.parametrize("name", STACKS)
def test_only_recurrent_layers_have_more_sequential_operations_for_more_positions(name: str) -> None:
    chains = [sequential_operations(STACKS[name].stack, n) for n in (6, 12)]
    assert chains[1] - chains[0] == 6 * STACKS[name].sequential
    whole = {"self_attention": 4, "restricted": 4, "position_wise": 2, "separable": 2}
    # Projection, scores, mixture, projection; two matrices; of each channel, then of each position.
    assert chains[0] == whole.get(name, 6 if name == "recurrent" else 1)


def test_a_round_of_a_convolution_reaches_as_far_as_its_kernel() -> None:
    first, second, *_ = reach_by_round(STACKS["convolutional"].stack, 6)
    expected = [[0 <= j - i <= 2 for j in range(6)] for i in range(6)]
    assert first.tolist() == expected
    assert second.tolist() == [[0 <= j - i <= 4 for j in range(6)] for i in range(6)]


def test_a_round_of_a_recurrent_layer_is_one_position() -> None:
    for number, reach in enumerate(reach_by_round(STACKS["recurrent"].stack, 4), start=1):
        assert reach.tolist() == [[0 <= j - i < number for j in range(4)] for i in range(4)]
    assert number == 4


def test_products_side_by_side_are_no_chain() -> None:
    x, weight = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
    side_by_side = x @ weight + x @ weight + x
    assert longest_chain_of_products(side_by_side) == 1
    assert longest_chain_of_products((side_by_side @ weight).exp() + x) == 2
    assert longest_chain_of_products(x + 1) == 0
