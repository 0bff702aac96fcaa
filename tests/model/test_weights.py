"""A model from weights is the one that they were taken from, and draws no others first."""

import subprocess
import sys
from pathlib import Path

import torch

from allyouneed.config.model import ModelConfig
from allyouneed.model.architectures import build_model, outline_model
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


def test_a_model_without_drawn_weights_can_be_trained_like_any_other(any_config: ModelConfig) -> None:
    torch.manual_seed(0)
    drawn, state = build_model(any_config), torch.get_rng_state()
    undrawn = build_model(any_config, draw=False)
    assert torch.equal(torch.get_rng_state(), state)
    undrawn.load_state_dict(drawn.state_dict())
    gradients = []
    for model in (drawn, undrawn):
        torch.manual_seed(1)
        model(torch.tensor([[9, 5, 12, 2]]), torch.tensor([[1, 8, 8]])).square().sum().backward()
        named = model.named_parameters()
        gradients.append({name: each.grad for name, each in named if each.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradient, gradients[1][name]) for name, gradient in gradients[0].items())


def test_an_outline_has_every_shape_and_no_memory_for_weights(any_config: ModelConfig) -> None:
    outline, model = outline_model(any_config), build_model(any_config)
    assert all(parameter.is_meta for parameter in outline.parameters())
    shapes = [
        {name: (tensor.shape, tensor.dtype) for name, tensor in each.state_dict().items()}
        for each in (outline, model)
    ]
    assert shapes[0] == shapes[1]


def test_models_from_weights_import_no_compiler() -> None:
    code = """
import sys
from pathlib import Path
import torch
from allyouneed.model.architectures import build_model
from allyouneed.model.weights import model_from_weights
from tests.model.conftest import KINDS, small

for kind in KINDS:
    weights = build_model(small(kind)).state_dict()
    model = model_from_weights(small(kind), weights, Path("weights"))
    with torch.no_grad():
        model(torch.tensor([[9, 5, 12, 2]]), torch.tensor([[1, 8, 8]]))
    assert {"torch._dynamo", "sympy"}.isdisjoint(sys.modules), kind
"""
    subprocess.run([sys.executable, "-c", code], check=True)
