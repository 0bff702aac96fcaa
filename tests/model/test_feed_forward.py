"""Equation 2 by hand, position by position."""

import math
from typing import get_args

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.model.feed_forward import ACTIVATIONS, FeedForward
from allyouneed.native.stack import ACTIVATIONS as NATIVE


def test_the_network_is_equation_2_by_hand() -> None:
    network = FeedForward(d_model=2, d_ff=3)
    network.load_state_dict(
        {
            "inner.weight": torch.tensor([[1.0, 2.0], [-1.0, 0.0], [0.0, -3.0]]),
            "inner.bias": torch.tensor([0.0, 2.0, 7.0]),
            "outer.weight": torch.tensor([[1.0, 10.0, 100.0], [0.0, 1.0, -1.0]]),
            "outer.bias": torch.tensor([1000.0, -1.0]),
        }
    )
    # Inside: max(0, 3 + 8), max(0, -3 + 2), max(0, -12 + 7).
    assert network(torch.tensor([3.0, 4.0])).tolist() == [1011.0, -1.0]
    # Inside: max(0, -5 + 2), max(0, 5 + 2), max(0, -3 + 7).
    assert network(torch.tensor([-5.0, 1.0])).tolist() == [1000.0 + 70 + 400, 7.0 - 4 - 1]


@pytest.mark.parametrize(
    ("activation", "expected"), [("relu", 2.0), ("gelu", 2 * 0.97725), ("swish", 2 / (1 + math.exp(-2)))]
)
def test_the_activation_can_be_another(activation: str, expected: float) -> None:
    network = FeedForward(d_model=1, d_ff=1, activation=activation)
    for parameter, value in zip(network.parameters(), (1.0, 0.0, 1.0, 0.0), strict=True):
        torch.nn.init.constant_(parameter, value)
    assert network(torch.tensor([2.0])).item() == pytest.approx(expected, rel=1e-5)


def test_the_setting_has_the_activations_of_the_model_and_the_kernels_have_no_others() -> None:
    assert {*NATIVE} <= {*ACTIVATIONS} == {*get_args(ModelConfig.model_fields["activation"].annotation)}


def test_each_position_is_mapped_alike_and_alone() -> None:
    network = FeedForward(d_model=6, d_ff=10)
    x = torch.randn(2, 5, 6)
    alone = torch.stack([torch.stack([network(position) for position in sentence]) for sentence in x])
    torch.testing.assert_close(network(x), alone)


def test_it_is_two_convolutions_with_kernel_size_1() -> None:
    network, inner, outer = FeedForward(6, 10), torch.nn.Conv1d(6, 10, 1), torch.nn.Conv1d(10, 6, 1)
    for convolution, linear in ((inner, network.inner), (outer, network.outer)):
        weights = {"weight": linear.weight.unsqueeze(-1), "bias": linear.bias}
        convolution.load_state_dict({name: each.detach() for name, each in weights.items()})
    x = torch.randn(2, 5, 6)
    convolved = outer(inner(x.transpose(1, 2)).relu()).transpose(1, 2)
    torch.testing.assert_close(network(x), convolved)
