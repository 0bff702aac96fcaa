"""The kernel for the residual connection computes what PyTorch does, and its gradients."""

import pytest
import torch
from tests.kernels import require_kernels
from torch import nn

from allyouneed.model.layers import AddAndNorm, add_and_norm
from allyouneed.training.residual import add_and_norm_by_kernel


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_kernel_has_the_same_sum_and_gradients(dtype: torch.dtype, rate: float) -> None:
    """With the same random numbers; without it, bfloat16 rounds the dropped elements once more."""
    require_kernels()
    around = AddAndNorm(40, dropout=rate, epsilon=1e-6).train()
    nn.init.uniform_(around.norm.weight, 0.5, 1.5)
    nn.init.uniform_(around.norm.bias, -0.5, 0.5)
    x, gradient = torch.randn(2, 3, 9, 40).unbind()
    y = torch.randn(3, 9, 40).to(dtype)
    found = []
    for around.combine in (add_and_norm_by_kernel, add_and_norm):
        if dtype == torch.float64:
            around, x, gradient = around.double(), x.double(), gradient.double()
        inputs = x.clone().requires_grad_(), y.clone().requires_grad_()
        torch.manual_seed(2)
        out = around(inputs[0], lambda _, y=inputs[1]: y)
        found.append((out, *torch.autograd.grad(out, (*inputs, *around.norm.parameters()), gradient)))
    close = {torch.float32: 1e-6, torch.bfloat16: 0.01, torch.float64: 0.0}[dtype]
    for by_kernel, by_pytorch in zip(*found, strict=True):
        assert by_kernel.dtype == by_pytorch.dtype
        assert (by_kernel - by_pytorch).float().norm() <= close * by_pytorch.float().norm()


def test_outside_of_training_nothing_is_dropped() -> None:
    around = AddAndNorm(8, dropout=0.5, epsilon=1e-6).eval()
    around.combine = add_and_norm_by_kernel
    x, y = torch.randn(2, 3, 8).unbind()
    assert torch.equal(around(x, lambda _: y), around.norm(x + y))
