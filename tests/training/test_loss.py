import math
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import require_kernels
from torch import Tensor
from torch.nn import functional

from allyouneed.config.run import RunConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.model.transformer import Transformer
from allyouneed.native import gradient_kernels as of_gradients
from allyouneed.native.library import library
from allyouneed.symbols import PADDING
from allyouneed.training import loss, memory_estimate
from allyouneed.training.loss import (
    LossSums,
    label_smoothed_cross_entropy,
    projected_loss,
    smoothing_over_all,
)
from allyouneed.training.trainer import Corpus
from allyouneed.training.update import batch_loss

Loss = Callable[[Tensor, Tensor, Tensor, float], LossSums]


def plain_loss(hidden: Tensor, matrix: Tensor, targets: Tensor, smoothing: float) -> LossSums:
    return label_smoothed_cross_entropy(functional.linear(hidden, matrix), targets, smoothing)


def random_problem(
    tokens: int, vocab: int, d_model: int, dtype: torch.dtype = torch.float64, spread: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(tokens + 100 * vocab + 10_000 * d_model)
    hidden = spread * torch.randn(tokens, d_model, dtype=dtype)
    matrix = spread * torch.randn(vocab, d_model, dtype=dtype)
    return hidden.requires_grad_(), matrix.requires_grad_(), torch.randint(vocab, (tokens,))


def gradients(
    of: Loss, hidden: Tensor, matrix: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, ...]:
    smoothed = of(hidden, matrix, targets, smoothing).smoothed
    return torch.autograd.grad(0.7 * smoothed, (hidden, matrix))


@settings(max_examples=60)
@given(
    tokens=st.integers(1, 17),
    vocab=st.integers(1, 13),
    d_model=st.integers(1, 5),
    smoothing=st.sampled_from([0.0, 0.1, 0.5, 0.99]),
    chunk_elements=st.sampled_from([1, 7, 26, 1 << 25]),
)
def test_the_loss_without_whole_logits_is_the_plain_one_in_value_and_gradients(
    tokens: int, vocab: int, d_model: int, smoothing: float, chunk_elements: int
) -> None:
    problem = (*random_problem(tokens, vocab, d_model), smoothing)
    with mock.patch.object(memory_estimate, "_CHUNK_ELEMENTS", chunk_elements):
        torch.testing.assert_close(projected_loss(*problem), plain_loss(*problem), rtol=1e-10, atol=1e-10)
        found = gradients(projected_loss, *problem)
    torch.testing.assert_close(found, gradients(plain_loss, *problem), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("chunk_elements", [26, 1 << 25])
def test_of_a_frozen_matrix_and_without_gradients_the_loss_has_the_same_bits(chunk_elements: int) -> None:
    hidden, matrix, targets = random_problem(tokens=9, vocab=13, d_model=4)
    with mock.patch.object(memory_estimate, "_CHUNK_ELEMENTS", chunk_elements):
        expected = projected_loss(hidden, matrix, targets, 0.1)
        [of_hidden] = torch.autograd.grad(expected.smoothed, [hidden])
        frozen = projected_loss(hidden, matrix.detach(), targets, 0.1)
        [of_frozen] = torch.autograd.grad(frozen.smoothed, [hidden])
        with torch.no_grad():
            alone = projected_loss(hidden, matrix, targets, 0.1)
    assert torch.equal(of_frozen, of_hidden)
    for found in (frozen, alone):
        assert [each.item() for each in found] == [each.item() for each in expected]


@pytest.mark.parametrize("chunk_elements", [26, 1 << 25])
def test_a_bias_of_the_logits_has_its_share_of_the_loss_and_a_gradient(chunk_elements: int) -> None:
    hidden, matrix, targets = random_problem(tokens=9, vocab=13, d_model=4)
    bias = torch.randn(13, dtype=torch.float64).requires_grad_()
    expected = label_smoothed_cross_entropy(functional.linear(hidden, matrix, bias), targets, 0.1)
    with mock.patch.object(memory_estimate, "_CHUNK_ELEMENTS", chunk_elements):
        found = projected_loss(hidden, matrix, targets, 0.1, bias)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(0.7 * found.smoothed, (hidden, matrix, bias)),
        torch.autograd.grad(0.7 * expected.smoothed, (hidden, matrix, bias)),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_under_bfloat16_the_loss_and_its_gradients_are_those_of_float32_within_its_precision(
    smoothing: float,
) -> None:
    problem = (*random_problem(tokens=211, vocab=307, d_model=16, dtype=torch.float32), smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = projected_loss(*problem)
        low_gradients = gradients(projected_loss, *problem)
    full = plain_loss(*problem)
    for sum_low, sum_full in zip(low, full, strict=True):
        assert sum_low.dtype == torch.float32
        assert sum_low.item() == pytest.approx(sum_full.item(), rel=2e-3)
    for gradient, exact in zip(low_gradients, gradients(plain_loss, *problem), strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - exact).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk_elements", [1_000, 1 << 25])
def test_with_the_kernel_and_without_it_the_loss_is_the_same(
    precision: torch.dtype, chunk_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products are the same; gradients differ where a probability is rounded to the other side."""
    require_kernels()
    monkeypatch.setattr(memory_estimate, "_CHUNK_ELEMENTS", chunk_elements)
    problem = (*random_problem(tokens=53, vocab=307, d_model=16, dtype=torch.float32), 0.1)
    found = []
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        for kernels in (library, lambda: None):
            for module in (loss, of_gradients):
                monkeypatch.setattr(module, "library", kernels)
            found.append((*projected_loss(*problem), *gradients(projected_loss, *problem)))
    close = 2e-6 if precision == torch.float32 else 1e-3
    for with_kernel, without in zip(*found, strict=True):
        assert (with_kernel - without).norm() < close * without.norm()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_extreme_logits_give_a_finite_loss_and_finite_gradients(precision: torch.dtype) -> None:
    hidden = torch.tensor([[1e4], [-1e4], [1e4]], requires_grad=True)
    matrix = torch.tensor([[1e4], [0.0], [-1e4]], requires_grad=True)
    problem = hidden, matrix, torch.tensor([0, 2, 2]), 0.0
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        smoothed, negative_log_likelihood = projected_loss(*problem)
        found = gradients(projected_loss, *problem)
    # Right and certain twice; then wrong by 2e8.
    assert smoothed.item() == pytest.approx(2e8, rel=0.01)
    assert negative_log_likelihood.item() == pytest.approx(2e8, rel=0.01)
    assert all(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_what_is_not_finite_stays_so(precision: torch.dtype, wrong: float) -> None:
    """An update with it is skipped."""
    hidden, matrix, targets = random_problem(tokens=5, vocab=40, d_model=3, dtype=torch.float32)
    with torch.no_grad():
        hidden[2, 1] = wrong
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
        assert not projected_loss(hidden, matrix, targets, 0.1).smoothed.isfinite()
        found = gradients(projected_loss, hidden, matrix, targets, 0.1)
    assert not any(gradient.isfinite().all() for gradient in found)


@pytest.mark.parametrize("of", [projected_loss, plain_loss])
def test_no_tokens_have_no_loss_and_zero_gradients(of: Loss) -> None:
    problem = (*random_problem(tokens=0, vocab=5, d_model=3), 0.1)
    assert [part.item() for part in of(*problem)] == [0.0, 0.0]
    hidden_gradient, matrix_gradient = gradients(of, *problem)
    assert hidden_gradient.shape == (0, 3)
    assert torch.equal(matrix_gradient, torch.zeros(5, 3, dtype=torch.float64))


def test_what_perplexity_is_made_of_carries_no_gradient() -> None:
    problem = (*random_problem(tokens=3, vocab=5, d_model=2), 0.1)
    assert not projected_loss(*problem).negative_log_likelihood.requires_grad
    assert not plain_loss(*problem).negative_log_likelihood.requires_grad


def test_smoothing_over_the_others_gives_the_right_token_the_rest() -> None:
    torch.manual_seed(0)
    logits, targets, vocab = torch.randn(5, 7, dtype=torch.float64), torch.tensor([0, 6, 3, 3, 1]), 7
    distribution = torch.full((5, vocab), 0.1 / (vocab - 1), dtype=torch.float64)
    distribution[torch.arange(5), targets] = 0.9
    expected = -(distribution * logits.log_softmax(-1)).sum()
    found = label_smoothed_cross_entropy(logits, targets, smoothing_over_all(0.1, "others", vocab)).smoothed
    torch.testing.assert_close(found, expected)
    assert smoothing_over_all(0.1, "all", vocab) == 0.1


def test_smoothing_is_that_of_the_paper_by_hand_and_by_torch() -> None:
    # The probabilities are 1/8, 2/8, 5/8 and 3/8, 3/8, 2/8. Smoothing 0.3 puts 0.1 on each of three ids.
    logits = torch.tensor([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]], dtype=torch.float64).log()
    targets = torch.tensor([2, 0])
    first = 0.8 * math.log(5 / 8) + 0.1 * math.log(1 / 8) + 0.1 * math.log(2 / 8)
    second = 0.8 * math.log(3 / 8) + 0.1 * math.log(3 / 8) + 0.1 * math.log(2 / 8)
    sums = label_smoothed_cross_entropy(logits, targets, 0.3)
    assert sums.smoothed.item() == pytest.approx(-first - second, abs=1e-12)
    assert sums.negative_log_likelihood.item() == pytest.approx(-math.log(5 / 8 * 3 / 8), abs=1e-12)
    by_torch = functional.cross_entropy(logits, targets, label_smoothing=0.3, reduction="sum")
    assert sums.smoothed.item() == pytest.approx(by_torch.item(), abs=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_of_a_padded_batch_the_plain_loss_and_its_gradient_are_those_of_training(
    corpus: Corpus, config: RunConfig, smoothing: float
) -> None:
    torch.manual_seed(1)
    model = Transformer(config.model.replace(dropout=0.0)).double()
    batch = make_batch(corpus.train, np.arange(24))
    targets = torch.from_numpy(batch.target_output)
    is_token = targets != PADDING
    assert not is_token.all()
    hidden = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target_input))
    plain = label_smoothed_cross_entropy(model.project(hidden)[is_token], targets[is_token], smoothing)
    trained_on = batch_loss(model, batch, smoothing, "float32")
    torch.testing.assert_close(trained_on, plain, rtol=1e-9, atol=0)
    found, expected = (
        torch.autograd.grad(sums.smoothed, list(model.parameters())) for sums in (trained_on, plain)
    )
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
