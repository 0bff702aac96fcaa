"""Products against float64, sums against exact integers, and rows against themselves, bit for bit."""

import math

import pytest
import torch
from tests.native.references import SHAPES, largest_values, product, random
from tests.native.with_tensors import PackedLinear, packed
from torch import Tensor

from allyouneed.native.library import FORMS
from allyouneed.native.linear import layout_of


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def bits(y: Tensor) -> Tensor:
    return y.view(torch.int32)


@pytest.mark.parametrize(("num_outputs", "num_inputs"), SHAPES)
def test_it_equals_the_product_in_float64_up_to_the_rounding_of_sums(
    form: str, num_outputs: int, num_inputs: int
) -> None:
    x, weight, bias = random(19, num_inputs), random(num_outputs, num_inputs, seed=2), random(num_outputs)
    y = PackedLinear(weight, bias, form)(x)
    expected, bound = product(x, weight, bias, form, bool(layout_of(form).pairs))
    assert ((y - expected).abs() <= bound).all()


def test_a_row_has_the_same_bits_wherever_it_stands_among_any_rows_on_any_threads(form: str) -> None:
    x, weight, bias = random(70, 259), random(101, 259, seed=2), random(101)
    layers = [PackedLinear(weight, bias, form, num_threads=threads) for threads in (1, 2)]
    alone = torch.cat([layers[0](row) for row in x.split(1)])
    for layer in layers:
        for num_rows in range(1, 71):
            first = 70 - num_rows
            assert torch.equal(bits(layer(x[:num_rows])), bits(alone[:num_rows]))
            assert torch.equal(bits(layer(x[first:])), bits(alone[first:]))
    order = torch.randperm(70, generator=torch.Generator().manual_seed(3))
    assert torch.equal(bits(layers[0](x[order])), bits(alone[order]))


def test_a_column_has_the_same_bits_in_any_layer(form: str) -> None:
    x, weight, bias = random(13, 40), random(70, 40, seed=2), random(70)
    y = PackedLinear(weight, bias, form)(x)
    for columns in (slice(0, 5), slice(31, 65), slice(69, 70)):
        assert torch.equal(PackedLinear(weight[columns], bias[columns], form)(x), y[:, columns])


def test_small_integers_come_out_exactly(form: str) -> None:
    x = torch.tensor([[127.0, 1, -2], [0, 0, 127], [-127, 3, 4]])
    most = 127.0
    # two neighbours add up to 127 at most
    weight, bias = torch.tensor([[most, -2, 3], [-most, 0, 1]]), torch.tensor([1.0, -1])
    assert torch.equal(PackedLinear(weight, bias, form)(x), x @ weight.T + bias)


def test_sums_of_the_largest_values_do_not_saturate(form: str) -> None:
    (x, weight), bias = largest_values(), torch.zeros(16)
    expected, bound = product(x, weight, bias, form, bool(layout_of(form).pairs))
    assert ((PackedLinear(weight, bias, form)(x) - expected).abs() <= bound).all()


def test_where_pairs_of_products_are_added_in_16_bits_two_weights_add_up_to_128_steps_at_most() -> None:
    layout = layout_of("int8")
    layout.values, layout.pairs = 4, 1  # as on x86 without VNNI
    halves = random(300, 259, seed=4).mul(20).round() / 2  # many lie between two steps
    for weight in (random(300, 259), halves, torch.full((3, 64), -0.7), largest_values()[1]):
        panels = packed(weight, torch.zeros(len(weight)), "int8", layout)["weight"]
        sums = panels.int().unflatten(-1, (2, 2)).sum(dim=-1).abs()
        assert 127 <= sums.amax() <= 128


def test_relu_keeps_what_is_positive(form: str) -> None:
    x, weight, bias = random(14, 30), random(40, 30, seed=2), random(40)
    y = PackedLinear(weight, bias, form)(x)
    assert torch.equal(PackedLinear(weight, bias, form, relu=True)(x), y.relu())


def test_no_bias_is_a_bias_of_zeros(form: str) -> None:
    x, weight = random(3, 20), random(40, 20, seed=2)
    assert torch.equal(PackedLinear(weight, None, form)(x), PackedLinear(weight, torch.zeros(40), form)(x))


def test_leading_axes_are_rows_and_there_may_be_none(form: str) -> None:
    layer, x = PackedLinear(random(9, 6), None, form), random(5, 3, 2, 6)
    assert torch.equal(layer(x), layer(x.view(30, 6)).view(5, 3, 2, 9))
    assert torch.equal(layer(x[0, 0, 0]), layer(x)[0, 0, 0])
    assert layer(x[:0]).shape == (0, 3, 2, 9)


@pytest.mark.parametrize("tiny", [0.0, 1e-40, -1e-35])
def test_rows_of_zeros_give_the_bias_and_so_do_columns(form: str, tiny: float) -> None:
    x, weight, bias = random(3, 20), random(40, 20, seed=2), random(40)
    x[1], weight[7] = tiny, tiny
    y = PackedLinear(weight, bias, form)(x)
    torch.testing.assert_close(y[1], bias, rtol=0, atol=1e-30)
    torch.testing.assert_close(y[:, 7], bias[7].expand(3), rtol=0, atol=1e-30)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("relu", [False, True])
def test_what_is_not_finite_stays_in_its_row(form: str, value: float, relu: bool) -> None:
    x, layer = random(15, 37), PackedLinear(random(40, 37, seed=2), None, form, relu=relu)
    expected = layer(x)
    x[4, 36] = value
    y = layer(x)
    assert not (y[4].isfinite() & (y[4] != 0)).any()  # ReLU makes zeros of what is negative
    assert not y[4].isfinite().all()
    others = torch.arange(15) != 4
    assert torch.equal(bits(y[others]), bits(expected[others]))
