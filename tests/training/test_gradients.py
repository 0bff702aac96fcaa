import math

import pytest
import torch
from torch import Tensor, nn

from allyouneed.config.run import TrainingConfig
from allyouneed.training.optimizer import build_optimizer
from allyouneed.training.update import FiniteWatch, Gradients

CPU = torch.device("cpu")


def build_layer() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(3, 5)  # 15 and 5 numbers: neither fills up what they are aligned to


def loss_of(layer: nn.Linear) -> Tensor:
    outputs: Tensor = layer(torch.arange(6.0).view(2, 3))
    return outputs.square().sum()


def test_the_buffer_holds_the_sum_of_the_gradients_of_several_backward_passes() -> None:
    layer, plain = build_layer(), build_layer()
    gradients = Gradients(list(layer.parameters()))
    for model in (layer, plain):
        for _ in range(2):
            loss_of(model).backward()
    for parameter, other in zip(layer.parameters(), plain.parameters(), strict=True):
        assert other.grad is not None
        torch.testing.assert_close(parameter.grad, other.grad, rtol=0, atol=0)
    in_all = sum(p.grad.sum().item() for p in plain.parameters() if p.grad is not None)
    assert gradients.buffer.sum().item() == pytest.approx(in_all)


def test_clearing_makes_all_gradients_and_the_loss_zero() -> None:
    layer = build_layer()
    gradients = Gradients(list(layer.parameters()))
    loss_of(layer).backward()
    gradients.loss += 3
    gradients.clear()
    assert gradients.loss == 0
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())


def test_a_gradient_whose_square_overflows_is_skipped_and_spoils_no_moment() -> None:
    layer = build_layer()
    optimizer = build_optimizer(layer, TrainingConfig())
    optimizer.param_groups[0]["lr"] = 0.1
    gradients, watch = Gradients(list(layer.parameters())), FiniteWatch(optimizer, CPU)
    for step, scale in enumerate((1.0, 1e21, 1.0), start=1):
        before = layer.weight.detach().clone()
        gradients.clear()
        (scale * loss_of(layer)).backward()
        assert gradients.buffer.isfinite().all()
        watch.update(gradients.buffer, step)
        assert torch.equal(before, layer.weight) == (step == 2)
    assert watch.counts() == [0, 1, 0]
    assert all(moment["exp_avg_sq"].isfinite().all() for moment in optimizer.state.values())


def test_once_halted_no_update_is_made_even_if_its_gradient_is_finite() -> None:
    layer = build_layer()
    optimizer = build_optimizer(layer, TrainingConfig())
    optimizer.param_groups[0]["lr"] = 0.1
    gradients, watch = Gradients(list(layer.parameters())), FiniteWatch(optimizer, CPU)
    moved = []
    for step, spoilt in enumerate((False, True, True, False, True, True, True, False), start=1):
        before = layer.weight.detach().clone()
        gradients.clear()
        loss_of(layer).backward()
        gradients.loss += math.inf if spoilt else 1.0
        watch.update(gradients.buffer, step)
        moved.append(not torch.equal(before, layer.weight))
    assert moved == [True, False, False, True, False, False, False, False]
    assert watch.counts() == [0, 5, 7]
