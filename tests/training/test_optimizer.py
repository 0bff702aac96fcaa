import pytest
import torch
from torch import nn

from allyouneed.config.presets import base, big
from allyouneed.config.run import RunConfig, TrainingConfig
from allyouneed.training.optimizer import build_optimizer, learning_rate


def test_the_learning_rate_is_equation_3_by_hand() -> None:
    # d_model 16 and 4 steps of warm-up: 1/4 * min(step^-0.5, step / 8).
    rates = [learning_rate(step, d_model=16, warmup_steps=4, factor=1.0) for step in (1, 2, 4, 16, 100)]
    assert rates == pytest.approx([1 / 32, 2 / 32, 1 / 8, 1 / 16, 1 / 40])
    assert learning_rate(16, d_model=16, warmup_steps=4, factor=3.0) == pytest.approx(3 / 16)


@pytest.mark.parametrize(("preset", "peak"), [(base(), 6.99e-4), (big(), 4.94e-4)], ids=["base", "big"])
def test_the_learning_rate_peaks_at_the_end_of_warm_up(preset: RunConfig, peak: float) -> None:
    d_model, warmup_steps = preset.model.d_model, preset.training.warmup_steps
    rates = [learning_rate(step, d_model, warmup_steps, 1.0) for step in range(1, 9_000)]
    assert rates.index(max(rates)) + 1 == 4_000
    assert max(rates) == pytest.approx(peak, rel=1e-3)


def test_a_step_of_adam_is_that_of_kingma_and_ba_with_the_papers_constants() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    module = nn.ParameterList([parameter])
    optimizer = build_optimizer(module, TrainingConfig())
    expected = parameter.detach().double()
    first_moment = second_moment = torch.zeros(3, dtype=torch.float64)
    for step, gradient in enumerate(torch.tensor([[0.5, 0.0, -1e-3], [-0.25, 0.0, 4.0]]), start=1):
        optimizer.param_groups[0]["lr"] = rate = 0.1 * step
        parameter.grad = gradient.clone()
        optimizer.step()
        first_moment = 0.9 * first_moment + 0.1 * gradient.double()
        second_moment = 0.98 * second_moment + 0.02 * gradient.double() ** 2
        corrected = first_moment / (1 - 0.9**step), second_moment / (1 - 0.98**step)
        expected = expected - rate * corrected[0] / (corrected[1].sqrt() + 1e-9)
    torch.testing.assert_close(parameter.detach().double(), expected, rtol=1e-5, atol=1e-6)
    assert parameter[1].item() == -2.0  # no gradient, no change: there is no weight decay
