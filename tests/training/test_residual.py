"""The kernel for the residual connection computes what PyTorch does, and its gradients."""

import math

import pytest
import torch
from tests.kernels import require_kernels
from torch import Tensor, nn

from allyouneed.model.layers import AddAndNorm, add_and_norm
from allyouneed.training.residual import add_and_norm_by_kernel


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


def test_outside_of_training_nothing_is_dropped() -> None:
    around = AddAndNorm(8, dropout=0.5, epsilon=1e-6).eval()
    around.combine = add_and_norm_by_kernel
    x, y = torch.randn(2, 3, 8).unbind()
    assert torch.equal(around(x, lambda _: y), around.norm(x + y))
