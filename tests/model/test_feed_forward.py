"""Equation 2 by hand, position by position."""

import torch

from allyouneed.model.feed_forward import FeedForward


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


def test_each_position_is_mapped_alike_and_alone() -> None:
    network = FeedForward(d_model=6, d_ff=10)
    x = torch.randn(2, 5, 6)
    alone = torch.stack([torch.stack([network(position) for position in sentence]) for sentence in x])
    torch.testing.assert_close(network(x), alone)
