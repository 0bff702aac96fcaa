"""The mixture of experts beside the equations of Shazeer et al. 2017."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from allyouneed.config.model import ModelConfig
from allyouneed.errors import UsageError
from allyouneed.model.architectures import build_model
from allyouneed.model.experts import Experts, chosen_with_probability, squared_variation


def random_experts(num_experts: int = 5, per_token: int = 2, balance: float = 0.5) -> Experts:
    torch.manual_seed(0)
    experts = Experts(6, 7, num_experts, per_token, balance).double()
    for parameter in experts.parameters():
        nn.init.normal_(parameter)
    return experts


@torch.no_grad()
def test_the_output_is_the_sum_over_the_best_experts_weighted_by_their_gates() -> None:
    experts = random_experts().eval()
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    found = experts(x)
    for row, output in zip(x.flatten(0, 1), found.flatten(0, 1), strict=True):
        scores = [float(gate @ row) for gate in experts.gate]
        best = sorted(range(5), key=lambda i: -scores[i])[:2]
        total = sum(math.exp(scores[i]) for i in best)
        expected = sum(
            math.exp(scores[i]) / total * ((row @ experts.inner[i]).relu() @ experts.outer[i]) for i in best
        )
        torch.testing.assert_close(output, expected)


@torch.no_grad()
def test_gates_are_compared_in_float32_also_where_other_products_are_in_bfloat16() -> None:
    experts, x = random_experts().float().eval(), torch.randn(50, 6)
    found: list[torch.Tensor] = []
    mix = experts._mixed

    def mixed(rows: torch.Tensor, weights: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        found.append(chosen)
        return mix(rows, weights, chosen)

    experts._mixed = mixed  # type: ignore[method-assign]
    experts(x)
    with torch.autocast("cpu", torch.bfloat16):
        experts(x)
    rounded = experts.bfloat16()
    rounded(x.bfloat16())
    assert torch.equal(found[0], found[1])
    products = x.bfloat16().float() @ rounded.gate.float().T
    assert torch.equal(found[2], products.topk(2).indices)


def test_the_losses_are_those_of_the_noisy_gates() -> None:
    experts, x = random_experts(), torch.randn(9, 6, dtype=torch.float64)
    torch.manual_seed(7)
    experts(x)
    loss = experts.take_loss()
    assert loss is not None
    assert experts.take_loss() is None
    torch.manual_seed(7)
    drawn = torch.randn(9, 5, dtype=torch.float64)
    experts.requires_grad_(False)
    importance, load = [0.0] * 5, [0.0] * 5
    normal = torch.distributions.Normal(0.0, 1.0)
    for row, noise in zip(x, drawn, strict=True):
        clean = [float(gate @ row) for gate in experts.gate]
        deviation = [math.log1p(math.exp(float(w @ row))) for w in experts.noise]
        noisy = [c + float(n) * d for c, n, d in zip(clean, noise, deviation, strict=True)]
        best = sorted(range(5), key=lambda i: -noisy[i])[:2]
        for i in range(5):
            if i in best:
                importance[i] += math.exp(noisy[i]) / sum(math.exp(noisy[j]) for j in best)
            others = sorted((noisy[j] for j in range(5) if j != i), reverse=True)
            load[i] += float(normal.cdf(torch.tensor((clean[i] - others[1]) / deviation[i])))

    def squared(values: list[float]) -> float:
        mean = sum(values) / 5
        return sum((value - mean) ** 2 for value in values) / 5 / mean**2

    assert loss.item() == pytest.approx(0.5 * (squared(importance) + squared(load)), rel=1e-6)


def test_the_probability_to_be_chosen_is_that_of_drawing_the_own_noise_again() -> None:
    torch.manual_seed(0)
    clean, deviation = torch.randn(1, 4).double(), torch.rand(1, 4).double() + 0.5
    noisy = clean + torch.randn(1, 4) * deviation
    probability = chosen_with_probability(clean, noisy, deviation, noisy.topk(3).values)[0]
    for i in range(4):
        again = noisy.expand(100_000, 4).clone()
        again[:, i] = clean[0, i] + torch.randn(100_000) * deviation[0, i]
        chosen = (again.topk(2).indices == i).any(1).double().mean()
        assert probability[i].item() == pytest.approx(chosen.item(), abs=0.006)


def test_gradients_of_output_and_losses_are_slopes() -> None:
    experts, x = random_experts(), torch.randn(7, 6, dtype=torch.float64, requires_grad=True)

    def both(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        output, loss = experts(x).sum(), experts.take_loss()
        assert loss is not None
        total: torch.Tensor = output + loss
        return total

    assert torch.autograd.gradcheck(both, x)
    both(x).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in experts.parameters())


def test_an_expert_that_no_token_is_sent_to_changes_nothing_and_has_no_gradient() -> None:
    experts = random_experts().eval()
    with torch.no_grad():
        experts.gate[:, 1:], experts.gate[:, 0] = 0, torch.tensor([3.0, 2, 1, 0, -1])
    x = torch.rand(4, 6, dtype=torch.float64)
    experts(x).sum().backward()
    assert experts.inner.grad is not None
    assert experts.inner.grad.flatten(1).any(1).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("training", [False, True])
def test_no_expert_computes_without_tokens(training: bool) -> None:
    experts, computed = random_experts().train(training), []
    experts.dropout.register_forward_hook(lambda module, given, found: computed.append(len(found)))
    with torch.no_grad():
        experts.gate[:, 1:], experts.gate[:, 0] = 0, torch.tensor([90.0, 10, 80, 0, -10])
        experts.noise.zero_()
        x = torch.rand(4, 6, dtype=torch.float64) + 1
        experts(x)
    assert computed == [4, 4], "all tokens go to the first and to the third"


def test_variation_is_zero_of_equal_loads_and_the_largest_of_one_alone() -> None:
    assert squared_variation(torch.full((4,), 3.0)).item() == 0
    assert squared_variation(torch.tensor([8.0, 0, 0, 0])).item() == pytest.approx(3)


@pytest.mark.parametrize("architecture", ["transformer", "recurrent"])
def test_a_model_s_auxiliary_loss_is_the_sum_of_its_experts_and_is_given_once(architecture: Any) -> None:
    sizes = {"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 8, "num_layers": 2, "num_heads": 2}
    config = ModelConfig(feed_forward="experts", num_experts=3, architecture=architecture, **sizes)  # type: ignore[arg-type]
    model = build_model(config).train()
    ids = torch.tensor([[9, 5, 2]]), torch.tensor([[1, 8]])
    model(*ids)
    parts = [part for part in model.modules() if isinstance(part, Experts)]
    expected = sum(part._loss.item() for part in parts if part._loss is not None)
    found = model.auxiliary_loss()
    assert found is not None
    assert found.item() == pytest.approx(expected)
    assert found.item() > 0
    model.eval()(*ids)
    assert model.auxiliary_loss() is None


def test_as_many_experts_a_token_as_there_are_experts_are_refused() -> None:
    with pytest.raises(UsageError, match="experts_per_token = 4 is not less than num_experts = 4; lower it"):
        ModelConfig().replace(feed_forward="experts", num_experts=4, experts_per_token=4)
