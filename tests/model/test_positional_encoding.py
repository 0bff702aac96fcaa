"""Positions: the paper's sines and cosines by hand, shifts as linear maps, tables that grow, learned ones."""

import math

import pytest
import torch

from allyouneed.model.position_tables import sinusoids
from allyouneed.model.positional_encoding import LearnedPositions, SinusoidalPositions


@pytest.mark.parametrize("position", [0, 1, 2, 39, 511, 3000])
@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_sines_stand_at_even_and_cosines_at_odd_dimensions(position: int, d_model: int) -> None:
    encoding = sinusoids(3001, d_model)[position]
    for i in range(d_model // 2):
        angle = position / 10_000 ** (2 * i / d_model)
        assert encoding[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert encoding[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_wavelengths_go_from_two_pi_towards_ten_thousand_times_that() -> None:
    encoding = sinusoids(2, 512)
    first, last = math.asin(encoding[1, 0]), math.asin(encoding[1, 510])
    assert 2 * math.pi / first == pytest.approx(2 * math.pi, rel=1e-6)
    assert 2 * math.pi / last == pytest.approx(2 * math.pi * 10_000 ** (510 / 512), rel=1e-6)


@pytest.mark.parametrize("shift", [1, 7, 100])
def test_a_shift_is_one_linear_map_of_every_position(shift: int) -> None:
    d_model = 16
    rotations = []
    for i in range(d_model // 2):
        angle = shift / 10_000 ** (2 * i / d_model)
        rotations.append(
            torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        )
    encoding = torch.from_numpy(sinusoids(300, d_model))
    shifted = encoding[:200] @ torch.block_diag(*rotations).T
    torch.testing.assert_close(shifted, encoding[shift : shift + 200], atol=2e-6, rtol=0)


def test_the_table_grows_with_the_longest_sequence_and_stays_the_same() -> None:
    positions = SinusoidalPositions(6)
    expected = torch.from_numpy(sinusoids(3000, 6))
    assert torch.equal(positions(5), expected[:5])
    assert torch.equal(positions(2990), expected[:2990])
    assert torch.equal(positions(7), expected[:7])


def test_sinusoids_are_no_part_of_a_checkpoint_and_keep_the_models_type() -> None:
    positions = SinusoidalPositions(6).double()
    assert list(positions.state_dict()) == []
    assert list(positions.parameters()) == []
    assert positions(5).dtype == positions(5000).dtype == torch.float64


def test_learned_positions_are_rows_of_one_parameter() -> None:
    positions = LearnedPositions(max_positions=10, d_model=4)
    torch.nn.init.normal_(positions.weight)
    assert torch.equal(positions(3), positions.weight[:3])
    assert torch.equal(positions(10), positions.weight)


def test_a_position_that_was_never_learned_is_refused() -> None:
    with pytest.raises(ValueError, match="11 positions wanted, 10 learned"):
        LearnedPositions(max_positions=10, d_model=4)(11)
