"""Schemes of relative positions beside their equations, computed pair by pair."""

import cmath
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.model.attention import SoftmaxAttention
from allyouneed.model.masks import Positions, causal_mask
from allyouneed.model.relative_positions import (
    SCHEMES,
    ClippedOffsets,
    LinearBiases,
    RelativePositions,
    RotaryPositions,
)
from allyouneed.model.transformer import Transformer


def from_zero(query_len: int, key_len: int) -> Positions:
    return Positions(torch.arange(query_len)[None], torch.arange(key_len)[None])


def random_heads(*lengths: int, width: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, length, width, dtype=torch.float64) for length in lengths]


@pytest.mark.parametrize("positions", SCHEMES)
def test_a_scheme_needs_self_attention(positions: Any) -> None:
    with pytest.raises(ValueError, match=r"positions = .* needs the transformer"):
        ModelConfig(positions=positions, architecture="convolutional")


@pytest.mark.parametrize("positions", SCHEMES)
def test_before_a_recurrent_decoder_it_is_of_the_encoder_alone(positions: Any) -> None:
    sizes: Any = {"d_model": 8, "d_ff": 16, "num_heads": 2, "source_vocab_size": 11, "target_vocab_size": 11}
    model = Transformer(ModelConfig(positions=positions, autoregression="ssru", **sizes))
    schemes = [name for name, module in model.named_modules() if isinstance(module, RelativePositions)]
    assert schemes
    assert all(name.startswith("encoder.") for name in schemes)


def test_rotary_turns_each_pair_by_its_angle() -> None:
    (x,) = random_heads(5, width=6)
    turned = RotaryPositions(6).double().turn(x, torch.tensor([[0, 1, 2, 3, 70]]))
    for place, position in enumerate((0, 1, 2, 3, 70)):
        for pair in range(3):
            number = complex(*x[1, 2, place, 2 * pair : 2 * pair + 2].tolist())
            expected = number * cmath.exp(1j * position / 10_000 ** (2 * pair / 6))
            found = complex(*turned[1, 2, place, 2 * pair : 2 * pair + 2].tolist())
            assert found == pytest.approx(expected, abs=1e-5)


def test_rotary_scores_depend_on_the_offset_alone() -> None:
    query, key = random_heads(7, 7, width=10)
    rotary = RotaryPositions(10)

    def scores(begin: int) -> Tensor:
        positions = torch.arange(begin, begin + 7)[None]
        return rotary.turn(query, positions) @ rotary.turn(key, positions).transpose(-2, -1)

    torch.testing.assert_close(scores(0), scores(300), rtol=0, atol=1e-3)
    assert not torch.allclose(scores(0), query @ key.transpose(-2, -1), atol=0.1)


def test_constants_stay_exact_in_a_module_of_bfloat16() -> None:
    for constants in (RotaryPositions(10).frequencies, LinearBiases(6).slopes):
        before = constants().clone()
        assert before.dtype == torch.float32
        assert not torch.equal(before, before.bfloat16().float())
        assert torch.equal(constants.bfloat16()(), before)


def test_alibi_falls_linearly_with_the_distance_by_powers_of_two() -> None:
    bias = LinearBiases(8).bias(torch.zeros(1, 8, 3, 5), from_zero(3, 5))
    assert bias.shape == (1, 8, 3, 5)
    assert bias[0, 0, 2].tolist() == [-1.0, -0.5, 0.0, -0.5, -1.0]  # slope 1/2
    assert bias[0, 7, 0].tolist() == [0.0, -1 / 256, -2 / 256, -3 / 256, -4 / 256]


def test_clipped_offsets_are_the_equations_of_shaw() -> None:
    torch.manual_seed(0)
    length, width = 6, 5
    scheme = ClippedOffsets(width, width, max_distance=2).double()
    scheme.draw()
    query, key, value = random_heads(length, length, length, width=width)
    mask = causal_mask(length)
    attention = SoftmaxAttention(relative=scheme).double()
    found = attention(query, key, value, mask)
    for i in range(length):
        a_keys, a_values = (
            [parameter[max(-2, min(2, j - i)) + 2] for j in range(length)]
            for parameter in (scheme.keys, scheme.values)
        )
        e = [query[1, 0, i] @ (key[1, 0, j] + a_keys[j]) / math.sqrt(width) for j in range(i + 1)]
        alpha = torch.stack(e).softmax(0)
        z = sum((alpha[j] * (value[1, 0, j] + a_values[j]) for j in range(i + 1)), torch.zeros(width))
        torch.testing.assert_close(found[1, 0, i], z)


@pytest.mark.parametrize("scheme", [RelativePositions(), LinearBiases(3), ClippedOffsets(4, 4, 2)], ids=str)
def test_only_schemes_that_turn_alone_leave_equation_1_to_faster_forms(scheme: RelativePositions) -> None:
    assert not SoftmaxAttention(relative=scheme).is_equation_1
    assert SoftmaxAttention(relative=RotaryPositions(4)).is_equation_1
    assert not SoftmaxAttention(dropout=0.1, relative=RotaryPositions(4)).is_equation_1
