"""Dropout with its own masks: the right rate, the right expectation, one mask for forward and backward."""

import math

import pytest
import torch

from allyouneed.model.dropout import Dropout

SIZE = 400_003  # no multiple of what one draw covers

rates = pytest.mark.parametrize("rate", [0.1, 0.3])


def dropped(rate: float, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Ones after dropout."""
    torch.manual_seed(seed)
    result: torch.Tensor = Dropout(rate).train()(torch.ones(shape, dtype=dtype))
    return result


@rates
def test_outside_training_nothing_is_touched(rate: float) -> None:
    x = torch.randn(3, 5)
    assert Dropout(rate).eval()(x) is x


def test_a_rate_of_zero_touches_nothing() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.001, 0.5, 0.9])
def test_so_many_elements_are_dropped(rate: float) -> None:
    share = (dropped(rate, SIZE) == 0).double().mean().item()
    assert share == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / SIZE))


@rates
def test_the_others_are_scaled_so_that_the_expectation_stays(rate: float) -> None:
    result = dropped(rate, SIZE)
    assert result.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)], rel=2**-15)
    five_sigma = 5 * math.sqrt(rate / (1 - rate) / SIZE)
    assert result.double().mean().item() == pytest.approx(1.0, abs=five_sigma)


def test_a_rate_just_below_one_still_keeps_some() -> None:
    kept = dropped(1 - 1e-9, 1 << 20) != 0
    assert 0 < kept.sum() < 5 * 2**20 / 2**16


@rates
def test_the_backward_pass_drops_and_scales_the_same_elements(rate: float) -> None:
    x = (torch.rand(1001) + 1).requires_grad_()
    result = Dropout(rate).train()(x)
    gradient = torch.randn(1001)
    result.backward(gradient)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, gradient * (result / x).detach())
    assert torch.equal(x.grad == 0, result == 0)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 512])
def test_elements_are_dropped_independently_of_their_neighbours(distance: int) -> None:
    rate = 0.3
    zeros = dropped(rate, SIZE) == 0
    both = (zeros[:-distance] & zeros[distance:]).double().mean().item()
    # Neighbouring pairs overlap: at most three times the variance of independent ones.
    assert both == pytest.approx(rate**2, abs=5 * math.sqrt(3 * rate**2 / SIZE))


def test_every_element_of_a_draw_is_dropped_as_often() -> None:
    zeros = (dropped(0.1, SIZE // 4, 4) == 0).double().mean(dim=0)
    assert (zeros - 0.1).abs().max() < 5 * math.sqrt(0.09 / (SIZE // 4))


def test_masks_follow_from_the_seed_and_differ_from_call_to_call() -> None:
    assert torch.equal(dropped(0.3, 1000, seed=1), dropped(0.3, 1000, seed=1))
    assert not torch.equal(dropped(0.3, 1000, seed=1), dropped(0.3, 1000, seed=2))
    torch.manual_seed(1)
    module, ones = Dropout(0.3).train(), torch.ones(1000)
    assert not torch.equal(module(ones), module(ones))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_type_and_shape_are_kept(dtype: torch.dtype) -> None:
    result = dropped(0.5, 3, 5, 7, dtype=dtype)
    assert (result.dtype, result.shape) == (dtype, (3, 5, 7))
    assert set(result.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0, 3), ()])
def test_the_smallest_shapes_work(shape: tuple[int, ...]) -> None:
    assert dropped(0.5, *shape).shape == shape


def test_what_is_not_contiguous_is_dropped_element_by_element() -> None:
    x = (torch.arange(12.0) + 1).view(3, 4).T
    torch.manual_seed(0)
    result = Dropout(0.5).train()(x)
    assert set((result / x).unique().tolist()) == {0.0, 2.0}


@pytest.mark.gpu
def test_a_gpu_drops_at_the_same_rate() -> None:
    zeros = Dropout(0.3).train()(torch.ones(SIZE, device="cuda")) == 0
    assert zeros.double().mean().item() == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / SIZE))
