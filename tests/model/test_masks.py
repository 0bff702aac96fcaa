"""Masks are open where a query may attend, and every row has an open position."""

import torch

from allyouneed.model.masks import causal_mask, padding_mask


def test_padding_is_closed_and_the_first_position_is_always_open() -> None:
    mask = padding_mask(torch.tensor([[5, 6, 2], [5, 2, 0], [0, 0, 0]]))
    assert mask.shape == (3, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, True], [True, True, False], [True, False, False]]


def test_each_position_sees_itself_and_what_is_before_it() -> None:
    mask = causal_mask(4)
    assert mask.shape == (1, 1, 4, 4)
    assert [[query >= key for key in range(4)] for query in range(4)] == mask[0, 0].tolist()


def test_control_symbols_other_than_padding_are_open() -> None:
    assert padding_mask(torch.tensor([[1, 2, 3, 4]])).all()
