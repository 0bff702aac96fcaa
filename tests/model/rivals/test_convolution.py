"""Convolutions beside a sum over their taps, and the rivals made of them beside their papers' formulas."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.model.rivals.convolution import Convolution, NormalisedConvolution
from allyouneed.model.sizes import unfolded_length


def summed(x: Tensor, weight: Tensor, bias: Tensor, offsets: list[int]) -> Tensor:
    """`y_t = b + sum_j W_j x_(t + offset_j)`, position by position."""
    rows = []
    for t in range(len(x)):
        y = bias.clone()
        for j, offset in enumerate(offsets):
            if 0 <= t + offset < len(x):
                y = y + weight[:, :, j] @ x[t + offset]
        rows.append(y)
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("width", "dilation", "causal", "offsets"),
    [
        (3, 1, False, [-1, 0, 1]),
        (3, 2, False, [-2, 0, 2]),
        (4, 1, False, [-1, 0, 1, 2]),
        (3, 4, True, [-8, -4, 0]),
        (1, 1, True, [0]),
    ],
)
@torch.no_grad()
def test_a_convolution_is_a_sum_over_its_taps(
    width: int, dilation: int, causal: bool, offsets: list[int]
) -> None:
    torch.manual_seed(0)
    layer = Convolution(5, 7, width, dilation, causal=causal).double()
    layer.draw()
    layer.bias.uniform_()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    expected = torch.stack([summed(row, layer.weight, layer.bias, offsets) for row in x])
    torch.testing.assert_close(layer(x), expected)
    if causal:
        window, found = layer.first_window(2, 1), []
        for position in range(11):
            y, window = layer.step(x[:, position : position + 1], window)
            found.append(y)
        torch.testing.assert_close(torch.cat(found, dim=1), expected)


@pytest.mark.parametrize("kind", [Convolution, NormalisedConvolution])
@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_a_frozen_convolution_is_the_same_and_neither_follows_its_weights_nor_copies_them(
    kind: type[Convolution], causal: bool
) -> None:
    torch.manual_seed(0)
    layer = kind(5, 7, 3, causal=causal)
    layer.draw()
    if isinstance(layer, NormalisedConvolution):
        layer.magnitude.uniform_()
    x, names = torch.randn(2, 11, 5), set(layer.state_dict())
    expected, step = layer(x), layer.step(x[:, :1], layer.first_window(2, 1))
    layer.freeze()
    torch.testing.assert_close((layer(x), layer.step(x[:, :1], layer.first_window(2, 1))), (expected, step))
    assert set(layer.state_dict()) == names
    if causal:
        taps = layer.weight.transpose(1, 2).flatten(1)
        assert taps.data_ptr() == layer.weight.data_ptr()
    if isinstance(layer, NormalisedConvolution):
        layer.magnitude.zero_()
        torch.testing.assert_close(layer(x), expected)


@torch.no_grad()
def test_a_normalised_convolution_has_pytorch_s_weights_and_keeps_the_variance_through_a_gate() -> None:
    torch.manual_seed(0)
    layer = NormalisedConvolution(64, 128, 3, gain=4.0, dropout=0.2)
    layer.draw()
    torch.testing.assert_close(layer.weight, layer.direction)
    layer.magnitude.uniform_()
    theirs = torch._weight_norm(layer.direction, layer.magnitude[:, None, None], 0)
    torch.testing.assert_close(layer.weight, theirs)
    layer.draw()
    dropped = torch.nn.functional.dropout(0.1 * torch.randn(4, 500, 64), 0.2)
    gated = torch.nn.functional.glu(layer(dropped), dim=-1)
    assert gated[:, 1:-1].var().item() == pytest.approx(0.01, rel=0.15), "of the variance of embeddings"


@torch.no_grad()
def test_the_convolutional_model_is_convs2s(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="convolutional", num_layers=2)
    source, target, kept = [9, 5, 12, 2], [1, 8, 8], math.sqrt(0.5)
    matrix = model.embeddings.matrix("source")

    def embedded(ids: list[int], positions: Any) -> Tensor:
        found: Tensor = 0.1 * (math.sqrt(12) * matrix[ids] + positions(len(ids)))
        return found

    def linear(layer: Any, x: Tensor) -> Tensor:
        found: Tensor = x @ layer.weight[..., 0].T + layer.bias
        return found

    def gated(layer: Any, x: Tensor, offsets: list[int]) -> Tensor:
        a, b = summed(x, layer.weight, layer.bias, offsets).split(12, dim=-1)
        found: Tensor = a * b.sigmoid()
        return found

    e, g = embedded(source, model.source_positions), embedded(target, model.target_positions)
    x = e
    for layer in model.encoder:
        x = (gated(layer, x, [-1, 0, 1]) + x) * kept
    z = linear(model.encoder_output, x)
    y = g
    for layer, queries, found in zip(model.decoder, model.decoder_queries, model.decoder_found, strict=True):
        h = gated(layer, y, [-2, -1, 0])
        d = (linear(queries, h) + g) * kept
        a = (d @ z.T).exp() / (d @ z.T).exp().sum(-1, keepdim=True)
        c = a @ ((z + e) * kept) * math.sqrt(len(source))
        y = ((linear(found, c) + h) * kept + y) * kept
    expected = linear(model.decoder_output, y)
    torch.testing.assert_close(model(torch.tensor([source]), torch.tensor([target]))[0], expected)


def test_the_gradient_that_reaches_the_encoder_is_divided_by_twice_its_readers(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="convolutional", num_layers=2, tied_embeddings="none")
    source = torch.tensor([[9, 5, 2]])
    memory = model.encode(source)
    (gradient,) = torch.autograd.grad(memory.parts[0].sum(), model.encoder_output.bias)
    torch.testing.assert_close(gradient, torch.full_like(gradient, 3 / (2 * 2)))


@pytest.mark.parametrize(("length", "positions"), [(1, 2), (5, 6), (6, 8), (10, 12), (11, 14)])
def test_a_source_is_unfolded_to_a_fifth_more_rounded_up(length: int, positions: int) -> None:
    assert unfolded_length(length) == positions
    assert unfolded_length(torch.tensor([length])).tolist() == [positions]


@torch.no_grad()
def test_bytenet_adds_the_source_s_column_and_beyond_the_last_nothing(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="bytenet", num_layers=4)

    def through(blocks: Any, x: Tensor, places: list[int]) -> Tensor:
        for number, block in enumerate(blocks):
            convolution, offsets = block.convolution, [2**number * place for place in places]
            y = block.narrow(block.norms[0](x).relu())
            y = summed(block.norms[1](y).relu(), convolution.weight, convolution.bias, offsets)
            x = x + block.wide(block.norms[2](y).relu())
        return x

    # Of four tokens there are five columns, the last of a padding symbol; of the longest, eight.
    source = torch.tensor([[9, 5, 12, 2, 0, 0], [9, 5, 12, 7, 7, 2]])
    read = through(model.encoder, model.read("source", torch.tensor([[9, 5, 12, 2, 0]]))[0], [-1, 0, 1])
    columns = model.encoder_output(model.encoder_norm(read).relu())
    torch.testing.assert_close(model.encode(source).parts[0][0], functional.pad(columns, (0, 0, 0, 3)))
    target = torch.randint(4, 17, (2, 9))
    x = model.read("target", target)[0]
    x[:5] += columns
    expected = model.decoder_output(model.decoder_norm(through(model.decoder, x, [-2, -1, 0])).relu())
    torch.testing.assert_close(model(source, target)[0], expected)


@torch.no_grad()
def test_bytenet_s_normalisations_have_the_epsilon_of_the_settings(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="bytenet", layer_norm_epsilon=0.5)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) == 2 * 3 * 3 + 2
    assert {norm.eps for norm in norms} == {0.5}


def test_dilations_double_and_begin_anew_after_five_or_as_many_as_are_wanted(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="bytenet", num_layers=7)
    assert [block.convolution.dilation for block in model.encoder] == [1, 2, 4, 8, 16, 1, 2]
    fewer = tiny_rival(architecture="bytenet", num_layers=4, num_dilations=3)
    assert [block.convolution.dilation for block in fewer.encoder] == [1, 2, 4, 1]
    assert [block.convolution.causal for block in model.decoder] == [True] * 7
