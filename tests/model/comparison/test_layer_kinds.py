"""The layers of Table 1 beside sums by hand: what is their core, and what is around it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.model.attention import attention_weights
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

D, N = 6, 11
LAYERS: dict[str, Callable[[], ComparedLayer]] = {
    "full": lambda: FullSelfAttention(D),
    "restricted": lambda: RestrictedSelfAttention(D, 4),
    "recurrent": lambda: RecurrentLayer(D),
    "convolutional": lambda: ConvolutionalLayer(D, 3),
    "dilated": lambda: ConvolutionalLayer(D, 3, 2),
    "separable": lambda: SeparableConvolutional(D, 3, 2),
    "position-wise": lambda: PositionWise(D),
    "fully connected": lambda: FullyConnected(D, N),
}


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, N, D)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_its_core_between_what_is_around_it(name: str, x: Tensor) -> None:
    layer = LAYERS[name]()
    found = layer.output(layer.core(*layer.inputs(x)))
    expected = functional.layer_norm(x + found, (D,), eps=1e-6)
    torch.testing.assert_close(layer(x), expected)


def test_restricted_self_attention_is_full_self_attention_with_closed_keys(x: Tensor) -> None:
    layer = RestrictedSelfAttention(D, 4)
    query, key, value = layer.inputs(x)
    back = torch.arange(N)[:, None] - torch.arange(N)
    near = (back <= 2) & (back >= -1)  # four keys, the query's own included
    expected = attention_weights(query, key, near[None, None]) @ value
    torch.testing.assert_close(layer.core(query, key, value), expected)
    everything = torch.ones(1, 1, N, N, dtype=torch.bool)
    torch.testing.assert_close(
        FullSelfAttention(D).core(query, key, value), attention_weights(query, key, everything) @ value
    )


def test_n_rounds_of_all_cells_at_once_are_the_recurrence_and_fewer_are_its_beginning(x: Tensor) -> None:
    layer = RecurrentLayer(D)
    states = layer.core(x)
    torch.testing.assert_close(layer.after_rounds(x, [layer] * (N - 1)), states)
    after_four = layer.after_rounds(x, [layer] * 3)
    torch.testing.assert_close(after_four[:, :4], states[:, :4])
    assert not torch.isclose(after_four[:, 4:], states[:, 4:]).all(-1).any()


def test_a_round_of_any_other_layer_is_the_next_of_a_stack(x: Tensor) -> None:
    first, second, third = ConvolutionalLayer(D, 3), FullSelfAttention(D), PositionWise(D)
    torch.testing.assert_close(first.after_rounds(x, [second, third]), third(second(first(x))))
    torch.testing.assert_close(first.after_rounds(x, []), first(x))


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_convolution_is_a_sum_over_the_positions_behind(x: Tensor, dilation: int) -> None:
    layer = ConvolutionalLayer(D, 3, dilation)
    weight, bias = layer.convolution.weight, layer.convolution.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    found = layer.core(*layer.inputs(x))
    for position in range(N):
        places = [(tap, position - dilation * (2 - tap)) for tap in range(3)]
        expected = bias + sum(x[:, place] @ weight[:, :, tap].T for tap, place in places if place >= 0)
        torch.testing.assert_close(found[:, :, position], expected)


def test_a_separable_convolution_is_a_convolution_whose_kernel_is_a_product(x: Tensor) -> None:
    layer = SeparableConvolutional(D, 3, 2)
    of_each, of_position = layer.convolution.children()
    assert isinstance(of_each, torch.nn.Conv1d)
    assert isinstance(of_position, torch.nn.Conv1d)
    assert of_each.bias is not None
    assert of_position.bias is not None
    kernel = of_position.weight * of_each.weight.transpose(0, 1)  # (d, d, 1) * (1, d, k)
    bias = of_position.weight[..., 0] @ of_each.bias + of_position.bias
    padded = functional.pad(x.transpose(1, 2), (4, 0))
    expected = functional.conv1d(padded, kernel, bias, dilation=2)
    torch.testing.assert_close(layer.core(*layer.inputs(x)), expected)


def test_every_number_of_a_fully_connected_layer_depends_on_every_number(x: Tensor) -> None:
    layer = FullyConnected(D, N)
    jacobian = torch.autograd.functional.jacobian(layer.core, x[:1])
    assert (jacobian != 0).all()
