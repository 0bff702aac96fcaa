"""Cases of `layer.c`; the references are layers of a model in float64."""

import copy

import torch
from tests.native.attention_cases import attended_structure
from tests.native.cases import Address, Case
from tests.native.driver import Layouts
from tests.native.linear_cases import linear_structure
from tests.native.references import LAYER, random
from torch import Tensor, nn

from allyouneed.model import Transformer
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import DecoderLayer, EncoderLayer, Residual

NUM_ROWS, NUM_SOURCE_ROWS = 19, 7


def layer_cases(layouts: Layouts, model: Transformer) -> list[Case]:
    encoder_layer, decoder_layer = model.encoder[0], model.decoder[0]
    assert isinstance(encoder_layer, EncoderLayer)
    assert isinstance(decoder_layer, DecoderLayer)
    return [encoder_layer_case(layouts, encoder_layer), decoder_layer_case(layouts, decoder_layer)]


@torch.no_grad()
def encoder_layer_case(layouts: Layouts, layer: EncoderLayer) -> Case:
    """All rows attend to each other, in one call."""
    case, exact = Case("layer_forward of the encoder"), copy.deepcopy(layer).double()
    x = random(NUM_ROWS, layer.after_feed_forward.norm.normalized_shape[0])
    y, table = case.room(x.numel()), keys_values_room(case, layer)
    everything = attended_structure(case, [list(range(NUM_ROWS))] * NUM_ROWS, group=2)
    packed = layer_structure(case, layouts, layer)
    case.call("layer_forward", packed, NUM_ROWS, case.tensor(x), table, 0, everything, None, None, y)
    mask = torch.ones(1, 1, 1, NUM_ROWS, dtype=torch.bool)
    case.expect_close(y, exact(x.double()[None], mask), **LAYER)
    case.expect_close(table, keys_values(exact, x), **LAYER)
    return case


@torch.no_grad()
def decoder_layer_case(layouts: Layouts, layer: DecoderLayer) -> Case:
    """Rows attend to the past and the memory; one by one and all at once have the same bits."""
    case, exact = Case("layer_forward of the decoder"), copy.deepcopy(layer).double()
    d_model = layer.after_feed_forward.norm.normalized_shape[0]
    x, memory = random(NUM_ROWS, d_model), random(NUM_SOURCE_ROWS, d_model, seed=2)
    packed, inputs = layer_structure(case, layouts, layer), case.tensor(x)
    of_memory = case.tensor(exact.cross_attention.key_value(memory.double()).float())
    past, sources = [list(range(row + 1)) for row in range(NUM_ROWS)], list(range(NUM_SOURCE_ROWS))
    by_row, at_once = ((case.room(x.numel()), keys_values_room(case, layer)) for _ in range(2))
    for row in range(NUM_ROWS):
        own, read = (attended_structure(case, [rows]) for rows in (past[row], sources))
        place = 4 * row * d_model
        tables = by_row[1], row, own, of_memory, read
        case.call("layer_forward", packed, 1, inputs + place, *tables, by_row[0] + place)
    own, read = (attended_structure(case, lists) for lists in (past, [sources] * NUM_ROWS))
    case.call("layer_forward", packed, NUM_ROWS, inputs, at_once[1], 0, own, of_memory, read, at_once[0])
    before = torch.ones(NUM_ROWS, NUM_ROWS, dtype=torch.bool).tril()[None, None]
    everything = torch.ones(1, 1, 1, NUM_SOURCE_ROWS, dtype=torch.bool)
    y = exact(x.double()[None], memory.double()[None], before, everything)
    case.expect_close(by_row[0], y, **LAYER)
    case.expect_close(by_row[1], keys_values(exact, x), **LAYER)
    for left, right in zip(by_row, at_once, strict=True):
        case.expect_same_bits(left, right)
    return case


def layer_structure(case: Case, layouts: Layouts, layer: EncoderLayer | DecoderLayer) -> Address:
    """`struct layer` with packed float32 weights."""

    def sublayer(
        first: nn.Linear, last: nn.Linear, after: Residual, *, relu: bool = False
    ) -> dict[str, object]:
        first_at = linear_structure(case, layouts, "float32", first.weight, first.bias, relu=relu)
        last_at = linear_structure(case, layouts, "float32", last.weight, last.bias)
        gains, biases = case.tensor(after.norm.weight), case.tensor(after.norm.bias)
        return {"in": first_at, "out": last_at, "gains": gains, "biases": biases, "epsilon": after.norm.eps}

    attention, network = layer.self_attention, layer.feed_forward
    assert isinstance(network, FeedForward)
    crossing = {}
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        crossing = sublayer(cross.query, cross.output, layer.after_cross_attention)
    return case.structure(
        "layer",
        heads=attention.num_heads,
        d_k=attention.d_k,
        d_v=attention.d_v,
        threads=1,
        self_attention=sublayer(attention.query_key_value, attention.output, layer.after_self_attention),
        cross_attention=crossing,
        feed_forward=sublayer(network.inner, network.outer, layer.after_feed_forward, relu=True),
    )


def keys_values_room(case: Case, layer: EncoderLayer | DecoderLayer) -> Address:
    attention = layer.self_attention
    return case.room(NUM_ROWS * attention.num_heads * (attention.d_k + attention.d_v))


def keys_values(exact: EncoderLayer | DecoderLayer, x: Tensor) -> Tensor:
    """The keys and values of x, in float64."""
    attention = exact.self_attention
    projected: Tensor = attention.query_key_value(x.double())
    return projected[:, attention.num_heads * attention.d_k :]
