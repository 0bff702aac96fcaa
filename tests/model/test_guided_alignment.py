"""The loss of guided alignment, beside sums made one by one; and who feels it."""

import math

import pytest
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.errors import UsageError
from allyouneed.model.architectures import build_model
from allyouneed.model.attention import scaled_dot_products
from allyouneed.model.guided_alignment import GuidedAttention, alignment_loss, guided_loss

SOURCE = torch.tensor([[9, 5, 12, 7, 8, 6, 2], [6, 16, 11, 2, 0, 0, 0]])  # two words of three ids, and one
TARGET = torch.tensor([[1, 8, 8, 11, 4, 5, 6], [1, 13, 5, 7, 0, 0, 0]])


def test_the_loss_is_the_mean_over_the_steps_of_words() -> None:
    torch.manual_seed(0)
    weights = torch.rand(2, 7, 7, dtype=torch.float64).softmax(-1)
    weights[0, 4] = 0.0  # the first head takes nothing of the second word there
    steps = [(row, step) for row, num_ids in enumerate((6, 3)) for step in range(num_ids)]
    expected = 0.0
    for row, step in steps:
        begin = step // 3 * 3
        expected -= math.log(max(1e-6, sum(float(w) for w in weights[row, step, begin : begin + 3])))
    found = alignment_loss(weights, SOURCE != 0, ids_per_word=3)
    assert float(found) == pytest.approx(expected / len(steps))
    of_pairs = alignment_loss(weights[:, :, :5], SOURCE[:, :5] != 0, ids_per_word=2)
    assert not torch.isclose(found, of_pairs)


def test_only_the_first_head_learns_from_it_and_only_in_training() -> None:
    torch.manual_seed(0)
    attention = GuidedAttention(scaled_dot_products, dropout=0.5, ids_per_word=3, loss_weight=0.5)
    query, key, value = (torch.randn(2, 4, 7, 5, requires_grad=True) for _ in range(3))
    mask = (SOURCE != 0)[:, None, None]
    attention.eval()(query, key, value, mask)
    assert attention.take_loss() is None
    attention.train()(query, key, value, mask)
    loss = attention.take_loss()
    assert loss is not None
    assert attention.take_loss() is None
    first = attention.weights(query, key, mask)[:, 0]
    torch.testing.assert_close(loss, 0.5 * alignment_loss(first, SOURCE != 0, 3))
    slopes = torch.autograd.grad(loss, (query, key))
    for slope in slopes:
        assert slope[:, 0].abs().sum() > 0
        assert slope[:, 1:].abs().sum() == 0


def test_the_head_comes_to_look_at_its_word_and_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 16, "d_ff": 16, "num_heads": 2}
    guided = {"num_layers": 2, "dropout": 0.0, "guided_alignment": 1.0, "ids_per_word": 3}
    model = build_model(ModelConfig().replace(**sizes, **guided)).train()

    def loss(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        model(source, target)
        found = model.auxiliary_loss()
        assert found is not None
        return found

    alone = loss(SOURCE[:1], TARGET[:1]), loss(SOURCE[1:, :4], TARGET[1:, :4])
    torch.testing.assert_close(loss(SOURCE, TARGET), (6 * alone[0] + 3 * alone[1]) / 9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        last = loss(SOURCE, TARGET)
        last.backward()
        optimizer.step()
    assert last < 0.1 < alone[0]
    [name] = (name for name, part in model.named_modules() if isinstance(part, GuidedAttention))
    assert name.startswith("decoder.1.cross_attention.")


def test_the_loss_by_a_guide_is_the_cross_entropy_of_the_steps_that_it_knows() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75], [0.0, 0.5, 0.5]]], dtype=torch.float64)
    guide = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.25, 0.25]]], dtype=torch.float64)
    third = -0.5 * math.log(1e-6) + 0.5 * math.log(2)  # the head takes nothing of its first source
    assert float(guided_loss(weights, guide)) == pytest.approx((math.log(2) + third) / 2)
    assert float(guided_loss(weights, torch.zeros_like(guide))) == 0


def test_the_head_of_the_given_layer_learns_the_guide_of_a_batch() -> None:
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 16, "d_ff": 16, "num_heads": 2}
    guided = {"num_layers": 3, "dropout": 0.0, "guided_alignment": 1.0, "guided_layer": 2}
    model = build_model(ModelConfig().replace(**sizes, **guided)).train()
    guide = torch.zeros(2, 7, 7)
    guide[0, torch.arange(7), torch.arange(7).flip(0)] = 1  # from right to left
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        model.guide(guide)
        model(SOURCE, TARGET)
        loss = model.auxiliary_loss()
        assert loss is not None
        loss.backward()
        optimizer.step()
    assert loss is not None
    assert loss < 0.1
    [name] = (name for name, part in model.named_modules() if isinstance(part, GuidedAttention))
    assert name.startswith("decoder.1.cross_attention.")


def test_a_layer_that_the_decoder_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match="guided_layer = 3: the decoder has 2 layers; take one of them"):
        ModelConfig().replace(num_layers=6, num_decoder_layers=2, guided_alignment=0.1, guided_layer=3)
