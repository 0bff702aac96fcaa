"""What holds for every rival: what a position sees, that steps are the whole, and what its gradient is."""

import torch
from torch import Tensor
from torch.nn import functional

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
