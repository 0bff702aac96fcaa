"""Attention in training by kernels is the plain form of equation 1, in values and gradients."""

import pytest
import torch
from tests.kernels import require_kernels
from torch import Tensor

from allyouneed.config.model import Reach
from allyouneed.hardware.devices import PYTORCH_THREADS
from allyouneed.model.attention import AttentionFunction, scaled_dot_product_attention
from allyouneed.model.masks import causal_mask, padding_mask
from allyouneed.model.neighbourhood import NeighbourhoodMask
from allyouneed.training.packed_attention import attention_by_kernel

LENGTHS = 1, 7, 17, 40


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
def test_the_kernels_compute_equation_1(kind: int, length: int, dtype: torch.dtype) -> None:
    require_kernels()
    inputs = [heads(length, width, seed, dtype) for seed, width in enumerate((8, 8, 5))]
    mask = masks(length)[kind]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    expected = attended(scaled_dot_product_attention, exact, mask)
    bound = 2e-6 if dtype == torch.float32 else 0.02
    for found, right in zip(attended(attention_by_kernel, inputs, mask), expected, strict=True):
        assert found.dtype == dtype
        assert (found - right).norm() <= bound * right.norm() + 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masks_and_gradients_may_have_any_layout(dtype: torch.dtype) -> None:
    require_kernels()
    inputs = [heads(16, 8, seed, dtype) for seed in range(3)]
    layouts = (
        causal_mask(16, torch.device("cpu")).flip(-1).transpose(-2, -1),  # keys are not side by side
        (torch.arange(16) < torch.tensor([[16], [8], [1]]))[:, None, None].expand(3, 1, 16, 16),
        torch.ones(1, 1, 1, 1, dtype=torch.bool).expand(3, 1, 16, 16),
    )
    for mask in layouts:
        found = []
        for attend in (attention_by_kernel, scaled_dot_product_attention):
            query, key, value = inputs
            out = attend(query, key, value, mask)
            gradient = torch.linspace(-1, 1, out.numel()).view(out.mT.shape).to(dtype).mT
            found.append((out, *torch.autograd.grad(out, inputs, gradient)))
        for by_kernel, plain in zip(*found, strict=True):
            assert (by_kernel - plain).norm() < (2e-6 if dtype == torch.float32 else 0.02) * plain.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_number_of_threads_gives_the_same_bits(dtype: torch.dtype) -> None:
    require_kernels()
    inputs, found = [heads(17, 8, seed, dtype) for seed in range(3)], []
    for threads in (1, 2):
        with PYTORCH_THREADS.limited_to(threads):
            found.append(attended(attention_by_kernel, inputs, masks(17)[0]))
    assert all(map(torch.equal, *found))
