"""The settings of a model are bounded, so that whatever passes can be described and counted."""

from typing import Any

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DataConfig, RunConfig, SearchConfig, TrainingConfig
from allyouneed.config.settings import Config
from allyouneed.cost.estimate import cost
from allyouneed.errors import UsageError
from allyouneed.model.architectures import build_model
from allyouneed.model.sizes import count_parameters

_MAX_BYTES = 2**63 - 1
"""The largest storage that PyTorch can describe."""
_GREATEST: dict[str, Any] = {
    "d_model": 1_000_000,
    "d_ff": 1_000_000,
    "num_heads": 10_000,
    "d_k": 1_000_000,
    "d_v": 1_000_000,
    "source_vocab_size": 1_000_000,
    "target_vocab_size": 1_000_000,
    "max_positions": 10_000_000,
    "positions": "learned",
    "num_layers": 2,
}
_OF_VARIANTS: dict[str, dict[str, Any]] = {
    "network": {},
    "experts": {"feed_forward": "experts", "num_experts": 10_000},
    "parameters": {
        "feed_forward": "parameters",
        "parameter_heads": 10_000,
        "parameter_pairs": 1_000_000,
        "parameter_d_k": 1_000_000,
        "parameter_d_v": 1_000_000,
    },
    "recurrent": {"architecture": "recurrent", "positions": "sinusoidal"},
    "convolutional": {"architecture": "convolutional", "kernel_width": 1_000},
    "bytenet": {
        "architecture": "bytenet",
        "positions": "sinusoidal",
        "kernel_width": 1_000,
        "num_dilations": 16,
        "num_layers": 16,
    },
}


@pytest.mark.parametrize("config", [ModelConfig, DataConfig, TrainingConfig, SearchConfig])
def test_every_whole_number_has_a_least_and_a_greatest_value(config: type[Config]) -> None:
    for name, schema in config.model_json_schema()["properties"].items():
        for kind in schema.get("anyOf", [schema]):
            if kind.get("type") == "integer":
                assert "minimum" in kind, name
                assert {"maximum", "exclusiveMaximum"} & set(kind), name


@pytest.mark.parametrize(
    ("setting", "bound"),
    [
        ("model.num_layers=100000", 500),
        ("model.d_model=1000000000", 1_000_000),
        ("model.d_model=100000000000000", 1_000_000),
        ("model.d_ff=1000000001", 1_000_000),
        ("model.num_heads=1000000", 10_000),
        ("model.source_vocab_size=4000000000", 1_000_000),
        ("model.num_dilations=1000", 16),
        ("data.vocab_size=4000000000", 1_000_000),
        ("training.num_steps=10000000000000000000", 2**63 - 1),
        ("training.batch_tokens=10000000000", 10**9),
    ],
)
def test_a_size_beyond_all_use_is_refused_with_the_bound(setting: str, bound: int) -> None:
    with pytest.raises(UsageError) as caught:
        RunConfig().with_settings([setting])
    assert f"must be at most {bound}, not " in caught.value.messages[0]


@pytest.mark.parametrize("variant", _OF_VARIANTS)
def test_the_largest_models_can_be_described_and_counted(variant: str) -> None:
    """Promise: Settings."""
    config = ModelConfig().replace(**_GREATEST | _OF_VARIANTS[variant])
    with torch.device("meta"):
        sizes = [parameter.numel() for parameter in build_model(config).parameters()]
    assert max(sizes) * 8 <= _MAX_BYTES
    assert sum(count_parameters(config).values()) == sum(sizes)
    training = {"batch_tokens": 10**9, "num_steps": 10**12}
    assert cost(RunConfig().replace(model=config.model_dump(), training=training), 10**6).training_flops > 0


def test_a_model_is_counted_without_drawing_its_weights() -> None:
    state = torch.get_rng_state()
    small = ModelConfig(
        d_model=2, d_ff=3, num_layers=1, num_heads=1, source_vocab_size=5, target_vocab_size=5
    )
    attention, network, norm = 4 * (2 * 2 + 2), 2 * 2 * 3 + 3 + 2, 2 * 2
    assert sum(count_parameters(small).values()) == 5 * 2 + (attention + network + 2 * norm) + (
        2 * attention + network + 3 * norm
    )
    assert torch.equal(torch.get_rng_state(), state)
