"""The recurrent rival beside equations 1 to 4 of Wu et al. 2016, computed one position after the other."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from allyouneed.config.model import ModelConfig
from allyouneed.errors import UsageError
from allyouneed.model.experts import Experts
from allyouneed.model.rivals.recurrent import Recurrent


def unrolled(lstm: Any, inputs: list[Tensor]) -> list[Tensor]:
    """What an LSTM puts out, gate by gate (Hochreiter and Schmidhuber 1997, with a forget gate)."""
    units = lstm.hidden_size
    hidden = cell = torch.zeros(units, dtype=torch.float64)
    outputs = []
    for x in inputs:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ hidden + lstm.bias_hh_l0
        enter, forget, new, leave = gates.split(units)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return outputs


@torch.no_grad()
def test_the_model_is_gnmt_with_attention_from_its_first_layer(tiny_rival: Any) -> None:
    model = tiny_rival(architecture="recurrent")
    source, target = [9, 5, 12, 2], [1, 8, 8]
    scale, matrix = math.sqrt(12), model.embeddings.matrix("source")
    x = [matrix[token] * scale for token in source]
    backwards = unrolled(model.encoder_backwards, x[::-1])[::-1]
    x = [torch.cat(both) for both in zip(unrolled(model.encoder_forwards, x), backwards, strict=True)]
    x = unrolled(model.encoder[0], x)
    memory = [a + b for a, b in zip(x, unrolled(model.encoder[1], x), strict=True)]

    y = unrolled(model.decoder[0], [matrix[token] * scale for token in target])
    w = model.decoder_attention.weight[0]
    contexts = []
    for query in y:
        projected = model.decoder_queries.weight @ query + model.decoder_queries.bias
        scores = torch.stack([w @ torch.tanh(projected + model.encoder_keys.weight @ h) for h in memory])
        weights = scores.exp() / scores.exp().sum()
        contexts.append(sum(weight * h for weight, h in zip(weights, memory, strict=True)))
    y = unrolled(model.decoder[1], [torch.cat(both) for both in zip(y, contexts, strict=True)])
    above = unrolled(model.decoder[2], [torch.cat(both) for both in zip(y, contexts, strict=True)])
    expected = torch.stack([a + b for a, b in zip(y, above, strict=True)])
    torch.testing.assert_close(model(torch.tensor([source]), torch.tensor([target]))[0], expected)


def test_the_forget_gate_is_open_at_first() -> None:
    model = Recurrent(ModelConfig(architecture="recurrent", d_model=8, num_layers=2))
    lstm = model.decoder[0]
    assert isinstance(lstm, nn.LSTM)
    assert lstm.get_parameter("bias_ih_l0").tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 16
    assert lstm.get_parameter("bias_hh_l0").abs().sum() == 0


def test_experts_stand_before_the_last_layer_of_either_stack(tiny_rival: Any) -> None:
    plain, mixed = (
        tiny_rival(architecture="recurrent"),
        tiny_rival(architecture="recurrent", feed_forward="experts"),
    )
    assert not [part for part in plain.modules() if isinstance(part, Experts)]
    assert len([part for part in mixed.modules() if isinstance(part, Experts)]) == 2
    for name, parameter in plain.named_parameters():
        mixed.get_parameter(name).data.copy_(parameter)
    for experts in (mixed.encoder_experts, mixed.decoder_experts):
        experts.outer.data.zero_()
    ids = torch.tensor([[9, 5, 2]]), torch.tensor([[1, 8]])
    torch.testing.assert_close(mixed(*ids), plain(*ids), msg="what they give is added")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_layers": 1}, "too few"),
        ({"feed_forward": "parameters"}, 'take "experts"'),
        ({"norm": "pre"}, "norm = pre has no effect with architecture = 'recurrent'"),
        ({"positions": "learned"}, "positions = learned has no effect"),
        ({"d_model": 9}, "take an even number"),
    ],
)
def test_settings_without_a_place_in_it_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ModelConfig().replace(architecture="recurrent", **settings)
