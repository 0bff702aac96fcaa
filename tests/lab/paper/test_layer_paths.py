"""Paths and chains found from layers are those that one counts with a pencil."""

import math

import pytest
import torch

from allyouneed.lab.paper.layer_paths import (
    longest_chain_of_products,
    path_length,
    reach_by_round,
    sequential_operations,
)
from allyouneed.lab.paper.table1 import TYPES, R
from allyouneed.model.comparison.layer_kinds import RestrictedSelfAttention

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
