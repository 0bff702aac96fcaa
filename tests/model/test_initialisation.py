"""Weights begin as in the authors' code of 2017: Glorot uniform over the packed matrices."""

import math

import pytest
import torch
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.model.transformer import Transformer

D = 64
D_FF = 160
BOUNDS = {
    "self_attention.query_key_value": math.sqrt(6 / (4 * D)),
    "self_attention.output": math.sqrt(6 / (2 * D)),
    "cross_attention.query": math.sqrt(6 / (2 * D)),
    "cross_attention.key_value": math.sqrt(6 / (3 * D)),
    "cross_attention.output": math.sqrt(6 / (2 * D)),
    "feed_forward.inner": math.sqrt(6 / (D + D_FF)),
    "feed_forward.outer": math.sqrt(6 / (D + D_FF)),
}
"""Of the uniform distributions: sqrt(6 / (rows + columns)) of the whole matrix."""


def build(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    sizes = {"d_model": D, "d_ff": D_FF, "num_layers": 2, "num_heads": 4}
    vocabularies = {"source_vocab_size": 500, "target_vocab_size": 500}
    return Transformer(ModelConfig(**sizes, **vocabularies, positions="learned", max_positions=300))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return build().state_dict()


def within_five_sigma(values: Tensor, variance: float, kurtosis: float) -> bool:
    """Mean 0 and the variance given, as far as the number of values can tell."""
    spread_of_variance = variance * math.sqrt((kurtosis - 1) / values.numel())
    return (
        abs(values.mean().item()) < 5 * math.sqrt(variance / values.numel())
        and abs(values.var().item() - variance) < 5 * spread_of_variance
    )


@pytest.mark.parametrize("name", BOUNDS)
def test_matrices_are_uniform_within_glorots_bound_of_the_packed_matrix(
    name: str, weights: dict[str, Tensor]
) -> None:
    bound = BOUNDS[name]
    found = [weight for key, weight in weights.items() if key.endswith(f"{name}.weight")]
    assert len(found) == (2 if name.startswith("cross") else 4)
    for weight in found:
        assert 0.99 * bound < weight.abs().max() <= bound
        assert within_five_sigma(weight, bound**2 / 3, kurtosis=9 / 5)


@pytest.mark.parametrize(
    "name", ["embeddings.matrices.shared", "source_positions.weight", "target_positions.weight"]
)
def test_embeddings_are_normal_with_the_inverse_root_of_the_width(
    name: str, weights: dict[str, Tensor]
) -> None:
    values = weights[name]
    assert within_five_sigma(values, 1 / D, kurtosis=3)
    within_one_deviation = (values.abs() < D**-0.5).double().mean().item()
    assert within_one_deviation == pytest.approx(0.6827, abs=5 * 0.466 / math.sqrt(values.numel()))


def test_biases_begin_at_zero_and_normalisations_as_the_identity(weights: dict[str, Tensor]) -> None:
    biases = [weight for key, weight in weights.items() if key.endswith("bias")]
    gains = [weight for key, weight in weights.items() if key.endswith("norm.weight")]
    assert len(biases) == 2 * (4 + 2) + 2 * (7 + 3)
    assert len(gains) == 2 * 2 + 2 * 3
    assert all((bias == 0).all() for bias in biases)
    assert all((gain == 1).all() for gain in gains)


def test_every_weight_is_given_by_the_seed() -> None:
    first, again, other = (build(seed).state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if not name.endswith("bias") and ".norm." not in name]
    assert not any(torch.equal(first[name], other[name]) for name in drawn)
