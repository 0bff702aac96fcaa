"""The model of frames: its front against PyTorch's convolutions, alone and in batches, cached and not."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.data.vectors import Vectors
from allyouneed.errors import UserError
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.torch_engine import TorchEngine, pad
from allyouneed.model.architectures import build_model
from allyouneed.model.frames import FramesTransformer, Halving
from allyouneed.model.masks import padding_mask
from allyouneed.model.sizes import count_parameters, source_positions
from allyouneed.symbols import START
from allyouneed.training.flops import training_flops

SIZES: dict[str, Any] = {
    **{"front": "convolutions", "tied_embeddings": "target", "source_vocab_size": 5, "target_vocab_size": 17},
    **{"d_model": 24, "d_ff": 32, "num_layers": 2, "num_heads": 3},
}
VARIANTS: list[dict[str, Any]] = [{}, {"norm": "pre", "neighbourhood": 4}, {"positions": "rotary"}]
LENGTHS = 13, 1, 160, 6


def built(**variant: Any) -> FramesTransformer:
    torch.manual_seed(0)
    model = build_model(ModelConfig(**SIZES, **variant)).double().eval()
    assert isinstance(model, FramesTransformer)
    return model


def frames(length: int, seed: int = 0) -> Tensor:
    return torch.randn(length, 5, generator=torch.Generator().manual_seed(length + seed)).double()


def batch(*lengths: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([*map(frames, lengths)], batch_first=True, padding_value=torch.nan)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
def test_halving_is_a_convolution_of_width_3_and_stride_2_and_a_relu(length: int) -> None:
    halving = Halving(7).double()
    x = torch.randn(2, length, 7).double()
    kernel = halving.map.weight.unflatten(1, (3, 7)).transpose(1, 2)  # (outputs, inputs, width)
    expected = functional.conv1d(x.mT, kernel, halving.map.bias, stride=2, padding=1).relu().mT
    found, real = halving(x, torch.ones(2, length, dtype=torch.bool))
    torch.testing.assert_close(found, expected)
    assert real.shape == (2, -(-length // 2))


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_source_has_the_same_states_alone_and_in_a_batch(variant: dict[str, Any]) -> None:
    model, target = built(**variant), torch.tensor([[START, 5, 9, 4]])
    together = model(batch(*LENGTHS), target.expand(len(LENGTHS), -1))
    for length, found in zip(LENGTHS, together, strict=True):
        torch.testing.assert_close(found, model(frames(length)[None], target)[0], rtol=1e-8, atol=1e-10)
        assert model.read_of(frames(length)[None]).size(1) == source_positions(model.config, length)


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_steps_and_scores_are_those_of_the_whole_target(variant: dict[str, Any]) -> None:
    model, target = built(**variant), [8, 5, 16]
    model.float()
    sources = [Vectors(frames(length).float().numpy()) for length in LENGTHS]
    decoding = TorchEngine(model).start(beam_size=1)
    decoding.admit(sources[:3])
    steps = [decoding.logits(np.array([[token]] * 3)) for token in (START, *target)]
    read = model.read_of(pad(sources[:3], torch.device("cpu")))
    hidden = model.decode(torch.tensor([[START, *target]] * 3), model.encode(read), padding_mask(read))
    torch.testing.assert_close(torch.cat(steps, dim=1), model.project(hidden), rtol=1e-4, atol=1e-5)
    [score] = score_targets(TorchEngine(model), sources[:1], [target])
    expected = model.project(hidden)[0].log_softmax(-1)
    assert score.token_log_probs == pytest.approx(
        [float(expected[place, token]) for place, token in enumerate([*target, 2])], abs=1e-4
    )


def test_every_weight_is_drawn_counted_and_has_a_gradient() -> None:
    model = built()
    counted = count_parameters(model.config)
    assert sum(parameter.numel() for parameter in model.parameters()) == sum(counted.values())
    model(batch(9, 3), torch.tensor([[START, 5], [START, 6]])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_flops_are_those_of_the_front_and_of_a_quarter_of_the_positions() -> None:
    config = ModelConfig(**SIZES)
    front = 100 * 5 * 24 + 50 * 3 * 24**2 + 25 * 3 * 24**2
    plain = config.model_copy(update={"front": "embeddings"})
    expected = 6 * front + training_flops(plain, 1, 25, 4, 4)
    assert training_flops(config, 1, 100, 4, 4) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tied_embeddings": "all", "source_vocab_size": 17}, 'needs tied_embeddings = "target"'),
        ({"source_end": False}, "source_end = true"),
        ({"guided_alignment": 1.0}, "guided_alignment = 0"),
        ({"symbol_dropout": 0.1}, "symbol_dropout = 0"),
        ({"architecture": "convolutional"}, "front = convolutions has no effect"),
    ],
)
def test_settings_that_do_not_suit_frames_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, UserError), match=message):
        ModelConfig(**SIZES | settings)
