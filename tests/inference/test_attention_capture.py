from typing import Any

import pytest
import torch

from allyouneed.inference import capture_attention
from allyouneed.symbols import END, START

SOURCE, TARGET = [5, 6, 7, 8], [9, 10]


def test_weights_have_a_row_for_each_query_that_sums_to_one(tiny_model: Any) -> None:
    weights = capture_attention(tiny_model(num_layers=2, num_heads=3), SOURCE, TARGET)
    assert weights.encoder.shape == (2, 3, 5, 5)
    assert weights.decoder.shape == (2, 3, 3, 3)
    assert weights.cross.shape == (2, 3, 3, 5)
    for kind in (weights.encoder, weights.decoder, weights.cross):
        torch.testing.assert_close(kind.sum(-1), torch.ones(kind.shape[:-1]))


def test_no_target_position_sees_a_later_one(tiny_model: Any) -> None:
    weights = capture_attention(tiny_model(), SOURCE, [9, 10, 4, 4])
    assert torch.equal(weights.decoder, weights.decoder.tril())
    assert (weights.decoder.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_first_layer_weights_equal_equation_1_by_hand(tiny_model: Any) -> None:
    model = tiny_model(d_k=5).eval()
    weights = capture_attention(model, SOURCE, TARGET)
    with torch.no_grad():
        x = model.embed("source", torch.tensor([[*SOURCE, END]]))[0]
        packed = model.encoder[0].self_attention.query_key_value
        query, key = (x @ packed.weight.T + packed.bias).split([15, 15, 12], dim=-1)[:2]
    for head in range(3):
        of_head = slice(5 * head, 5 * head + 5)
        expected = (query[:, of_head] @ key[:, of_head].T / 5**0.5).softmax(-1)
        torch.testing.assert_close(weights.encoder[0, head], expected)


def test_capture_leaves_the_model_as_it_was(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model().eval()
    modules = [layer.self_attention for layer in model.encoder]
    modules += [
        attention for layer in model.decoder for attention in (layer.self_attention, layer.cross_attention)
    ]
    attends = [module.attend for module in modules]
    ids = torch.tensor([[*SOURCE, END]]), torch.tensor([[START, *TARGET]])
    before = model(*ids)
    capture_attention(model, SOURCE, TARGET)
    assert [module.attend for module in modules] == attends
    assert torch.equal(model(*ids), before)
    with pytest.raises(IndexError):
        capture_attention(model, [99], TARGET)
    assert [module.attend for module in modules] == attends
