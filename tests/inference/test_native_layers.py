"""Whole layers by the kernels against the layers of the model."""

from typing import Any

import pytest
import torch
from torch import Tensor

from allyouneed.inference.native_layers import pack_layer, pack_linear
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.native.kernels import Rows
from allyouneed.native.library import available

NUM_ROWS, NUM_SOURCE_ROWS = 5, 7


@pytest.fixture
def layers(tiny_model: Any) -> tuple[EncoderLayer, DecoderLayer]:
    """With normalisations that do something."""
    if "float32" not in available():
        pytest.skip("NOT RUN: needs a C compiler")
    model = tiny_model().eval()
    for name, parameter in model.named_parameters():
        if ".norm." in name:
            torch.nn.init.normal_(parameter)
    return model.encoder[0], model.decoder[0]


def all_of(num_rows: int, counts: list[int]) -> Rows:
    """Each query attends to the first rows, as many as it counts."""
    rows = torch.arange(num_rows, dtype=torch.int32)
    return Rows(rows, torch.zeros(len(counts), dtype=torch.int64), torch.tensor(counts, dtype=torch.int32))


def room(layer: Any, num_rows: int) -> Tensor:
    return torch.full((num_rows, layer.keys_values_width), torch.nan)


@torch.no_grad()
@pytest.mark.parametrize("threads", [1, 2])
def test_a_packed_layer_of_the_encoder_is_that_layer(layers: Any, threads: int) -> None:
    layer, packed = layers[0], pack_layer(layers[0], "float32", threads)
    x = torch.randn(NUM_ROWS, layer.after_feed_forward.norm.normalized_shape[0])
    found = packed(x, room(packed, NUM_ROWS), 0, all_of(NUM_ROWS, [NUM_ROWS] * NUM_ROWS))
    expected = layer(x[None], torch.ones(1, 1, 1, NUM_ROWS, dtype=torch.bool))[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_packed_layer_of_the_decoder_writes_row_by_row_what_that_layer_gives(layers: Any) -> None:
    layer, packed = layers[1], pack_layer(layers[1], "float32", 1)
    d_model = layer.after_feed_forward.norm.normalized_shape[0]
    x, memory = torch.randn(NUM_ROWS, d_model), torch.randn(NUM_SOURCE_ROWS, d_model)
    of_memory = pack_linear(layer.cross_attention.key_value, "float32", 1)(memory)
    table = room(packed, NUM_ROWS)
    found = [
        packed(
            x[row : row + 1],
            table,
            row,
            all_of(NUM_ROWS, [row + 1]),
            of_memory,
            all_of(NUM_SOURCE_ROWS, [NUM_SOURCE_ROWS]),
        )
        for row in range(NUM_ROWS)
    ]
    past = torch.ones(NUM_ROWS, NUM_ROWS, dtype=torch.bool).tril()[None, None]
    everything = torch.ones(1, 1, 1, NUM_SOURCE_ROWS, dtype=torch.bool)
    expected = layer(x[None], memory[None], past, everything)[0]
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_no_row_is_written_outside_the_table(layers: Any) -> None:
    packed = pack_layer(layers[0], "float32", 1)
    x = torch.randn(2, layers[0].after_feed_forward.norm.normalized_shape[0])
    with pytest.raises(AssertionError):
        packed(x, room(packed, 2), 1, all_of(2, [2, 2]))
