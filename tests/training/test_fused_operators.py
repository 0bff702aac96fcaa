"""Attention in training by kernels is the plain form of equation 1, in values and gradients."""

import math

import pytest
import torch
from tests.kernels import require_kernels
from torch import Tensor, nn

from allyouneed.config.model import Reach
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.model.attention import AttentionFunction, scaled_dot_product_attention
from allyouneed.model.dropout import Dropout
from allyouneed.model.layers import AddAndNorm, add_and_norm
from allyouneed.model.masks import causal_mask, padding_mask
from allyouneed.model.neighbourhood import NeighbourhoodMask
from allyouneed.model.position_tables import rotary_frequencies
from allyouneed.model.relative_positions import turn_pairs
from allyouneed.training.fused_operators import (
    add_and_norm_by_kernel,
    attention_by_kernel,
    drop_by_kernel,
    short_attention_by_kernel,
    turn_pairs_by_kernel,
)

LENGTHS = 1, 7, 17, 40, 60
by_kernels = pytest.mark.parametrize("attend", [attention_by_kernel, short_attention_by_kernel])


def heads(length: int, width: int, seed: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(3, length, 2, width).to(dtype).transpose(1, 2).requires_grad_()  # as in the model


def attended(
    of: AttentionFunction, inputs: list[Tensor], mask: Tensor | NeighbourhoodMask
) -> tuple[Tensor, ...]:
    """What attention gives, and the gradients of its inputs."""
    query, key, value = inputs
    out = of(query, key, value, mask)
    gradient = torch.linspace(-1, 1, out.numel()).view(out.shape).to(out)
    return out, *torch.autograd.grad(out, inputs, gradient)


def masks(length: int) -> list[Tensor | NeighbourhoodMask]:
    ids = torch.full((3, length), 9)
    ids[1, length // 2 :] = ids[2, 1:] = 0
    valid = torch.ones(3, length, dtype=torch.bool)
    return [
        padding_mask(ids),
        causal_mask(length, torch.device("cpu")),
        NeighbourhoodMask(valid, Reach(2, 0)),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", range(3), ids=["padding", "causal", "neighbourhood"])
@by_kernels
def test_the_kernels_compute_equation_1(
    attend: AttentionFunction, kind: int, length: int, dtype: torch.dtype
) -> None:
    require_kernels()
    inputs = [heads(length, width, seed, dtype) for seed, width in enumerate((8, 8, 5))]
    mask = masks(length)[kind]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    expected = attended(scaled_dot_product_attention, exact, mask)
    bound = 2e-6 if dtype == torch.float32 else 0.02
    for found, right in zip(attended(attend, inputs, mask), expected, strict=True):
        assert found.dtype == dtype
        assert (found - right).norm() <= bound * right.norm() + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@by_kernels
def test_masks_and_gradients_may_have_any_layout(attend: AttentionFunction, dtype: torch.dtype) -> None:
    require_kernels()
    inputs = [heads(16, 8, seed, dtype) for seed in range(3)]
    layouts = (
        causal_mask(16, torch.device("cpu")).flip(-1).transpose(-2, -1),  # keys are not side by side
        (torch.arange(16) < torch.tensor([[16], [8], [1]]))[:, None, None].expand(3, 1, 16, 16),
        torch.ones(1, 1, 1, 1, dtype=torch.bool).expand(3, 1, 16, 16),
    )
    for mask in layouts:
        found = []
        for each in (attend, scaled_dot_product_attention):
            query, key, value = inputs
            out = each(query, key, value, mask)
            gradient = torch.linspace(-1, 1, out.numel()).view(out.mT.shape).to(dtype).mT
            found.append((out, *torch.autograd.grad(out, inputs, gradient)))
        for by_kernel, plain in zip(*found, strict=True):
            assert (by_kernel - plain).norm() < (2e-6 if dtype == torch.float32 else 0.02) * plain.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@by_kernels
def test_any_number_of_threads_gives_the_same_bits(attend: AttentionFunction, dtype: torch.dtype) -> None:
    require_kernels()
    inputs, found = [heads(17, 8, seed, dtype) for seed in range(3)], []
    for threads in (1, 2):
        with PYTORCH_THREADS.limited_to(threads):
            found.append(attended(attend, inputs, masks(17)[0]))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "positions", [torch.arange(7)[None], torch.tensor([[3, 0, 70, 1, 1, 2, 9]] * 2), torch.tensor([[5], [2]])]
)
def test_a_kernel_turns_by_positions_and_its_gradients_back(
    positions: torch.Tensor, dtype: torch.dtype
) -> None:
    require_kernels()
    length = positions.size(1)
    packed = torch.randn(2, length, 3 * 24).to(dtype).requires_grad_()
    gradient = torch.randn(2, 4, length, 6).to(dtype)  # in another layout
    frequencies, found = torch.from_numpy(rotary_frequencies(6)), []
    for turn in (turn_pairs_by_kernel, turn_pairs):
        turned = turn(packed[..., 24:48].unflatten(-1, (4, 6)).transpose(1, 2), positions, frequencies)
        found.append((turned, *torch.autograd.grad(turned, packed, gradient)))
    for by_kernel, by_pytorch in zip(*found, strict=True):
        assert by_kernel.dtype == by_pytorch.dtype == dtype
        close = {torch.float32: 1e-6, torch.bfloat16: 0.01, torch.float64: 0.0}[dtype]
        assert (by_kernel - by_pytorch).float().norm() <= close * by_pytorch.float().norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_kernel_has_the_same_sum_and_gradients(dtype: torch.dtype) -> None:
    require_kernels()
    around = AddAndNorm(40, dropout=0.0, epsilon=1e-6).train()
    nn.init.uniform_(around.norm.weight, 0.5, 1.5)
    nn.init.uniform_(around.norm.bias, -0.5, 0.5)
    x, gradient = torch.randn(2, 3, 9, 40).unbind()
    y = torch.randn(3, 9, 40).to(dtype)
    found = []
    for around.combine in (add_and_norm_by_kernel, add_and_norm):
        if dtype == torch.float64:
            around, x, gradient = around.double(), x.double(), gradient.double()
        inputs = x.clone().requires_grad_(), y.clone().requires_grad_()
        out = around(inputs[0], lambda _, y=inputs[1]: y)
        found.append((out, *torch.autograd.grad(out, (*inputs, *around.norm.parameters()), gradient)))
    close = {torch.float32: 1e-6, torch.bfloat16: 0.01, torch.float64: 0.0}[dtype]
    for by_kernel, by_pytorch in zip(*found, strict=True):
        assert by_kernel.dtype == by_pytorch.dtype
        assert (by_kernel - by_pytorch).float().norm() <= close * by_pytorch.float().norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_kernel_drops_a_share_of_elements_at_random(rate: float, dtype: torch.dtype) -> None:
    """Masks agree in both directions, differ between calls, and are independent of neighbours."""
    require_kernels()
    around = AddAndNorm(256, dropout=rate, epsilon=1e-6).train()
    around.combine = add_and_norm_by_kernel
    torch.manual_seed(2)
    x, gradient = torch.randn(2, 400, 256).unbind()

    def stays() -> Tensor:
        y = torch.ones(400, 256, dtype=dtype, requires_grad=True)
        out = around(x, lambda _: y)
        (of_y,) = torch.autograd.grad(out, y, gradient)
        stays = of_y != 0
        assert torch.allclose(out, around.norm(x + stays / (1 - rate)), atol=1e-5)
        return stays

    torch.manual_seed(3)
    first, second = stays(), stays()
    torch.manual_seed(3)
    assert torch.equal(stays(), first)

    def is_near(events: Tensor, probability: float) -> bool:
        deviation = math.sqrt(probability * (1 - probability) / events.numel())
        return abs(events.double().mean().item() - probability) < 5 * deviation

    kept = 1 - rate
    assert is_near(first, kept)
    assert is_near(first & second, kept**2)
    assert is_near(first[:, :-1] & first[:, 1:], kept**2)
    assert is_near(first[:-1] & first[1:], kept**2)
    assert is_near(first[:, :-16] & first[:, 16:], kept**2)


@pytest.mark.parametrize(("rate", "all_stay"), [(0.0, True), (1e-12, True), (1 - 1e-12, False)])
def test_at_the_ends_a_kernel_drops_nothing_or_everything(rate: float, all_stay: bool) -> None:
    """Where nothing can be dropped, nothing is drawn."""
    require_kernels()
    around = AddAndNorm(64, dropout=rate, epsilon=1e-6).train()
    around.combine = add_and_norm_by_kernel
    x, y = torch.randn(2, 30, 64).unbind()
    before = torch.get_rng_state()
    out = around(x, lambda _: y)
    assert torch.equal(before, torch.get_rng_state()) == all_stay
    assert torch.allclose(out, around.norm(x + y if all_stay else x), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_kernel_drops_and_scales_the_same_elements_in_both_directions(dtype: torch.dtype) -> None:
    require_kernels()
    dropout = Dropout(0.25).train()
    dropout.drop = drop_by_kernel
    x = (torch.rand(9, 301, dtype=dtype) + 1).mT.requires_grad_()  # of any layout
    gradient = torch.randn(9, 301, dtype=dtype).mT
    out = dropout(x)
    (of_x,) = torch.autograd.grad(out, x, gradient)
    stays = out != 0
    close = 0.01 if dtype == torch.bfloat16 else 1e-4
    assert (stays.double().mean().item(), out.dtype) == (pytest.approx(0.75, abs=0.05), dtype)
    torch.testing.assert_close(out, (x * stays / 0.75).to(dtype), rtol=close, atol=0)
    torch.testing.assert_close(of_x, (gradient * stays / 0.75).to(dtype), rtol=close, atol=0)
    assert not torch.equal(dropout(x) != 0, stays)


def test_outside_of_training_nothing_is_dropped() -> None:
    around = AddAndNorm(8, dropout=0.5, epsilon=1e-6).eval()
    around.combine = add_and_norm_by_kernel
    x, y = torch.randn(2, 3, 8).unbind()
    assert torch.equal(around(x, lambda _: y), around.norm(x + y))
