"""What holds for every rival: what a position sees, that steps are the whole, and what its gradient is."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.lab.paper.layer_measurements import longest_chain_of_products, plain_operations
from allyouneed.model.architectures import ARCHITECTURES, build_model
from allyouneed.model.encoder_decoder import StepwiseModel
from allyouneed.symbols import PADDING, SENTINEL, START

SOURCE = torch.tensor([[9, 5, 12, 7, 4, 6, 2], [6, 16, 2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 8, 8, 11, 4, 15, 9, 10, 6, 7, 4], [1, 13, 5, 0, 0, 0, 0, 0, 0, 0, 0]])


@torch.no_grad()
def test_no_position_sees_padding_or_the_future(rival: StepwiseModel) -> None:
    states = rival(SOURCE, TARGET)
    longer = rival(functional.pad(SOURCE, (0, 5)), functional.pad(TARGET, (0, 2), value=9))
    torch.testing.assert_close(longer[:, :-2][TARGET != PADDING], states[TARGET != PADDING])
    alone = rival(SOURCE[1:, :3], TARGET[1:, :3])
    torch.testing.assert_close(alone[0], states[1, :3])


@torch.no_grad()
def test_the_last_position_sees_every_source_token_and_none_sees_a_later_target_token(
    rival: StepwiseModel,
) -> None:
    source, target = SOURCE[:1], TARGET[:1]
    states = rival(source, target)
    for place in range(source.size(1)):
        changed = source.clone()
        changed[0, place] = SENTINEL
        assert not torch.allclose(rival(changed, target)[0, -1], states[0, -1], atol=1e-12)
    for place in range(target.size(1)):
        changed = target.clone()
        changed[0, place] = SENTINEL
        found = rival(source, changed)[0]
        torch.testing.assert_close(found[:place], states[0, :place])
        assert not torch.allclose(found[place], states[0, place])


@torch.no_grad()
def test_steps_of_several_hypotheses_are_the_whole_and_their_state_does_not_grow(
    rival: StepwiseModel,
) -> None:
    beams = torch.randint(4, 17, (2, 3, 37))  # farther than any convolution reaches
    beams[:, :, 0] = START
    memory = rival.encode(SOURCE)
    state, found = rival.first_state(2, 3), []
    shapes = [part.shape for part in state]
    for position in range(beams.size(2)):
        hidden, state = rival.step(beams[:, :, position], state, memory)
        assert [part.shape for part in state] == shapes
        found.append(hidden)
    whole = torch.stack([rival(SOURCE, beams[:, beam]) for beam in range(3)], dim=1)
    torch.testing.assert_close(torch.stack(found, dim=2), whole)


def test_the_gradient_is_the_slope_of_the_loss(rival: StepwiseModel) -> None:
    gold, real = torch.randint(4, 17, (14,)), TARGET != PADDING
    scaled = rival.config.architecture == "convolutional"  # what goes back to its encoder

    def loss() -> Tensor:
        return functional.cross_entropy(rival.project(rival(SOURCE, TARGET)[real]), gold)

    parameters = [
        parameter
        for name, parameter in rival.named_parameters()
        if not name.endswith("noise") and not (scaled and name.startswith(("encoder", "source", "embed")))
    ]
    gradients = torch.autograd.grad(loss(), parameters)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    values, distance = [], 1e-6
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=sign * distance)
            values.append(loss())
    torch.testing.assert_close(slope, (values[0] - values[1]) / (2 * distance), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_only_the_recurrent_translator_has_a_longer_chain_of_products_for_more_tokens(
    architecture: str,
) -> None:
    settings: dict[str, Any] = {"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 12}
    settings |= {"architecture": architecture, "num_heads": 2, "num_layers": 2}
    model = build_model(ModelConfig(**settings))

    def chain(source: int, target: int) -> int:
        ids = [torch.full((1, length), 5) for length in (source, target)]
        with plain_operations():
            return longest_chain_of_products(model(*ids))

    more_source, more_target = chain(7, 4) - chain(4, 4), chain(4, 7) - chain(4, 4)
    # Three more source tokens are read backwards by the first layer, and then forwards by the second.
    assert (more_source, more_target) == ((6, 3) if architecture == "recurrent" else (0, 0))
