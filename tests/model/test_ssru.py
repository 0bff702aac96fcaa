"""The recurrent unit that may take the place of self-attention in the decoder."""

import pytest
import torch
from tests.tiny import TinyModel

from allyouneed.config.model import ModelConfig
from allyouneed.model.masks import PackedMask, causal_mask, pack
from allyouneed.model.ssru import SSRU

WIDTH = 6


@pytest.fixture
def unit() -> SSRU:
    torch.manual_seed(1)
    return SSRU(WIDTH).double()


@torch.no_grad()
def one_by_one(unit: SSRU, x: torch.Tensor) -> torch.Tensor:
    """The definition of Kim et al. 2019, a position after the other; (length, width)."""
    cell, outputs = torch.zeros(WIDTH, dtype=torch.float64), []
    for vector in x:
        forget = torch.sigmoid(unit.forget.weight @ vector + unit.forget.bias)
        cell = forget * cell + (1 - forget) * (unit.candidate.weight @ vector)
        outputs.append(cell.clamp_min(0))
    return torch.stack(outputs)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 33])
def test_all_positions_at_once_are_one_after_the_other(unit: SSRU, length: int) -> None:
    x = torch.randn(2, length, WIDTH, dtype=torch.float64)
    found = unit(x, causal_mask(length))
    torch.testing.assert_close(found, torch.stack([one_by_one(unit, row) for row in x]))


def test_steps_continue_where_the_last_one_ended(unit: SSRU) -> None:
    x = torch.randn(9, WIDTH, dtype=torch.float64)
    cell, outputs = torch.zeros(WIDTH, dtype=torch.float64), []
    for vector in x:
        output, cell = unit.step(vector, cell)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs), one_by_one(unit, x))


def test_packed_sentences_do_not_read_each_other(unit: SSRU) -> None:
    lengths = [3, 1, 8]
    ids = torch.zeros(3, 8, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = 5
    packed = pack(ids, torch.device("cpu"))
    x = torch.randn(1, sum(lengths), WIDTH, dtype=torch.float64)
    found = unit(x, PackedMask(packed, packed, causal=True))
    expected = torch.cat([one_by_one(unit, part) for part in x[0].split(lengths)])
    torch.testing.assert_close(found[0], expected)


def test_gradients_are_those_of_the_definition(unit: SSRU) -> None:
    x = torch.randn(1, 5, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: unit(x, causal_mask(5)), x)


def test_cells_keep_the_digits_that_bfloat16_lacks(unit: SSRU) -> None:
    low = unit.bfloat16()
    output, cell = low.step(torch.randn(WIDTH, dtype=torch.bfloat16), torch.zeros(WIDTH))
    assert (output.dtype, cell.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"neighbourhood": 5}, "neighbourhood = 5 needs self-attention in the decoder"),
        ({"architecture": "convolutional"}, "autoregression = ssru has no effect"),
    ],
    ids=str,
)
def test_what_needs_self_attention_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ModelConfig.model_validate({"autoregression": "ssru", **settings})


def test_decoders_may_have_another_depth(tiny_model: TinyModel) -> None:
    model = tiny_model(num_layers=2, num_decoder_layers=3, autoregression="ssru")
    assert (len(model.encoder), len(model.decoder)) == (2, 3)
