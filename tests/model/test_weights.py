"""A model from weights is the one that they were taken from, and draws no others first."""

from pathlib import Path

import torch

from allyouneed.config.model import ModelConfig
from allyouneed.model import build_model
from allyouneed.model.weights import model_from_weights


def test_a_model_from_weights_draws_none_and_is_the_same_model(any_config: ModelConfig) -> None:
    model = build_model(any_config).eval()
    state = torch.get_rng_state()
    found = model_from_weights(any_config, model.state_dict(), Path("weights"))
    assert torch.equal(torch.get_rng_state(), state)
    assert not found.training
    tensors, expected = (
        {**dict(each.named_parameters()), **dict(each.named_buffers())} for each in (found, model)
    )
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
    ids = torch.tensor([[9, 5, 12, 2]]), torch.tensor([[1, 8, 8]])
    with torch.no_grad():
        assert torch.equal(found(*ids), model(*ids))
