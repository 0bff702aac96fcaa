"""The memory of an update is estimated near what PyTorch keeps, and as much is computed at once as fits."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import base
from allyouneed.model.architectures import build_model
from allyouneed.training.memory_estimate import activations_per_token, fitting_tokens, training_memory


@pytest.mark.parametrize("attention", ["scaled", "additive"])
def test_the_estimate_of_activations_is_near_what_pytorch_keeps(attention: str) -> None:
    length, sentences = 24, 8
    config = ModelConfig(
        source_vocab_size=97, target_vocab_size=97, d_model=64, d_ff=256, num_layers=2, num_heads=4
    ).replace(attention=attention)
    check_activations(config, length, sentences)


@pytest.mark.parametrize(
    "settings",
    [
        {"architecture": "recurrent"},
        {"architecture": "recurrent", "feed_forward": "experts", "num_experts": 4},
        {"feed_forward": "experts", "num_experts": 4},
        {"architecture": "convolutional"},
        {"architecture": "bytenet"},
    ],
)
def test_so_is_that_of_a_rival(settings: dict[str, Any]) -> None:
    check_activations(ModelConfig().replace(**SIZES, **settings), 24, 8)


@pytest.mark.parametrize("architecture", ["convolutional", "bytenet"])
def test_so_is_that_of_wide_kernels(architecture: str) -> None:
    config = ModelConfig().replace(**SIZES, architecture=architecture, kernel_width=7)
    check_activations(config, 24, 32)  # so many that what is made of the weights alone counts for little


SIZES = {"source_vocab_size": 97, "target_vocab_size": 97, "d_model": 64, "d_ff": 256, "num_layers": 4}


def check_activations(config: ModelConfig, length: int, sentences: int) -> None:
    model = build_model(config).train()
    ids = torch.randint(5, 97, (sentences, length))
    known = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model(ids, ids)
    measured = sum(storage.nbytes() for pointer, storage in kept.items() if pointer not in known)
    estimate = 4 * sentences * length * activations_per_token(config, length)
    assert hidden.requires_grad
    assert estimate == pytest.approx(measured, rel=0.2)


def test_the_peak_is_the_sum_of_what_is_held_when_the_loss_is_computed() -> None:
    config = base().replace(model={"source_vocab_size": 1_000, "target_vocab_size": 1_000})
    memory = training_memory(config, 100, 25, chunk_elements=30_000)
    assert memory.weights + memory.gradients + memory.moments == 16 * memory.weights // 4
    assert memory.loss_estimate == 4 * (2 * 30_000 + 1_000 * 512 + 100 * 512)
    parts = memory.weights * 4, memory.activations_estimate, memory.loss_estimate
    assert memory.peak_estimate == sum(parts)
    one_chunk = training_memory(config, 20, 25, chunk_elements=30_000)
    assert one_chunk.loss_estimate == 4 * (2 * 20 * 1_000 + 1_000 * 512 + 20 * 512)


def test_a_batch_is_halved_until_its_update_fits() -> None:
    config, chunk = base(), 1 << 28
    needed = [training_memory(config, 26_500 // parts, 25, chunk).peak_estimate for parts in (1, 2, 4)]
    assert all(larger > smaller for larger, smaller in pairwise(needed))
    for parts, memory in zip((1, 2, 4), needed, strict=True):
        just_enough, too_little = int(memory / 0.8) + 1, int(memory / 0.8) - 1
        assert fitting_tokens(config, 26_500, 25, chunk, just_enough) == 26_500 // parts
        assert fitting_tokens(config, 26_500, 25, chunk, too_little) == 26_500 // (2 * parts)
    assert fitting_tokens(config, 26_500, 25, chunk, 1) == 25  # a sentence is always computed
