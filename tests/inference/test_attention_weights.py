import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.config.model import Reach
from allyouneed.inference.attention_weights import (
    agreement,
    capture_attention,
    measure,
    merge_pieces,
    strongest_links,
)
from allyouneed.model.attention import (
    COMPATIBILITIES,
    CrossAttention,
    SelfAttention,
)
from allyouneed.symbols import END, START

SOURCE, TARGET = [5, 6, 7, 8], [9, 10]
D_K = 5

Formula = Callable[[torch.Tensor, torch.Tensor, Any, int], float]
FORMULAS: dict[str, Formula] = {
    "scaled": lambda query, key, module, head: float(query @ key) / math.sqrt(D_K),
    "unscaled": lambda query, key, module, head: float(query @ key),
    "additive": lambda query, key, module, head: sum(
        w * math.tanh(q + k)
        for w, q, k in zip(*map(torch.Tensor.tolist, (module.weight[head], query, key)), strict=True)
    ),
}
"""`ModelConfig.attention` -> score of a query and a key of a head, before the softmax, written down anew."""


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


def test_weights_of_restricted_self_attention_are_zero_outside_of_the_neighbourhood(tiny_model: Any) -> None:
    weights = capture_attention(tiny_model(neighbourhood=2), SOURCE, TARGET)
    back = torch.arange(5)[:, None] - torch.arange(5)
    near = (back == 0) | (back == 1)
    assert torch.equal(weights.encoder > 0, near.expand(2, 3, 5, 5))
    assert torch.equal(weights.decoder > 0, near[:3, :3].expand(2, 3, 3, 3))
    assert (weights.cross > 0).all()


def test_a_decoder_with_recurrent_units_attends_to_the_source_only(tiny_model: Any) -> None:
    weights = capture_attention(tiny_model(autoregression="ssru", num_decoder_layers=1), SOURCE, TARGET)
    assert [len(of_kind) for of_kind in (weights.encoder, weights.decoder, weights.cross)] == [2, 0, 1]
    torch.testing.assert_close(weights.cross.sum(-1), torch.ones(1, 3, 3))


def test_end_symbols_that_are_not_read_have_no_weights(tiny_model: Any) -> None:
    weights = capture_attention(tiny_model(source_end=False), SOURCE, TARGET)
    assert (weights.encoder.shape, weights.cross.shape) == ((2, 3, 4, 4), (2, 3, 3, 4))
    torch.testing.assert_close(weights.cross.sum(-1), torch.ones(2, 3, 3))
    assert capture_attention(tiny_model(source_end=False), [], TARGET).cross.shape == (2, 3, 3, 1)


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


def test_every_way_to_compare_queries_and_keys_has_a_formula() -> None:
    missing = COMPATIBILITIES.keys() - FORMULAS.keys()
    assert not missing, f"add the formula of {', '.join(sorted(missing))} to FORMULAS, in plain numbers"


@pytest.mark.parametrize("attention", FORMULAS)
@pytest.mark.parametrize(
    "others",
    [
        {},
        {"norm": "pre"},
        {"attention_dropout": 0.5, "symbol_dropout": 0.5, "dropout": 0.5},
        {"feed_forward": "parameters", "parameter_pairs": 4, "positions": "concatenated"},
        {"decoder_start": "zeros", "target_space": True, "attention_bias": False},
        {"neighbourhood": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 2e-6)])
@torch.no_grad()
def test_weights_equal_those_of_the_plain_model_in_every_layer_head_and_kind(
    tiny_model: Any, attention: str, others: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    model = tiny_model(num_layers=3, d_k=D_K, attention=attention, **others).to(dtype).train()
    weights = capture_attention(model, SOURCE, TARGET)
    inputs = record_inputs(model.eval().double(), SOURCE, TARGET)
    near, past = model.config.reach(causal=False), model.config.reach(causal=True)
    formula = FORMULAS[attention]
    for layer in range(3):
        (x,), (y,), (z, memory) = (inputs[kind][layer] for kind in ("encoder", "decoder", "cross"))
        encoder, decoder = model.encoder[layer].self_attention, model.decoder[layer]
        cross = decoder.cross_attention
        expected = {
            "encoder": by_formula(formula, encoder, *packed(encoder, x), near or Reach(99, 99)),
            "decoder": by_formula(
                formula, decoder.self_attention, *packed(decoder.self_attention, y), past or Reach(99, 0)
            ),
            "cross": by_formula(formula, cross, cross.query(z), cross.key_value(memory), Reach(99, 99)),
        }
        for kind, of_heads in expected.items():
            found = getattr(weights, kind)[layer].double()
            torch.testing.assert_close(found, of_heads, rtol=0, atol=tolerance)


def record_inputs(model: Any, source: list[int], target: list[int]) -> dict[str, list[list[torch.Tensor]]]:
    """The vectors that each attention of a model in float64 is given; the masks are left out."""
    inputs: dict[str, list[list[torch.Tensor]]] = {"encoder": [], "decoder": [], "cross": []}
    of_kind = {
        "encoder": [layer.self_attention for layer in model.encoder],
        "decoder": [layer.self_attention for layer in model.decoder],
        "cross": [layer.cross_attention for layer in model.decoder],
    }
    for kind, modules in of_kind.items():
        for module in modules:
            module.register_forward_pre_hook(
                lambda _, given, named, kind=kind: inputs[kind].append(
                    [
                        x[0]
                        for x in (*given, *named.values())
                        if isinstance(x, torch.Tensor) and x.is_floating_point()
                    ]
                ),
                with_kwargs=True,
            )
    model(torch.tensor([[*source, END]]), torch.tensor([[START, *target]]))
    return inputs


def packed(attention: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries, and keys with values behind them, of all heads side by side."""
    both: torch.Tensor = attention.query_key_value(x)
    return both[:, :15], both[:, 15:]


def by_formula(
    formula: Formula,
    attention: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    reach: Reach,
) -> torch.Tensor:
    """The softmax over what compares queries and keys of three heads with d_k = 5, number by number."""
    weights = torch.zeros(3, len(query), len(key), dtype=torch.float64)
    for head in range(3):
        of_head = slice(D_K * head, D_K * head + D_K)
        for i in range(len(query)):
            open_to = [j for j in range(len(key)) if -reach.after <= i - j <= reach.before]
            scores = [
                math.exp(formula(query[i, of_head], key[j, of_head], attention.plain.compatibility, head))
                for j in open_to
            ]
            weights[head, i, open_to] = torch.tensor(scores, dtype=torch.float64) / sum(scores)
    return weights


def test_capture_leaves_the_model_as_it_was(tiny_model: Any) -> None:
    model = tiny_model(dropout=0.5).train()
    modules = [module for module in model.modules() if isinstance(module, SelfAttention | CrossAttention)]
    attends = [module.attend for module in modules]
    capture_attention(model, SOURCE, TARGET)
    with pytest.raises(IndexError):
        capture_attention(model, [99], TARGET)
    assert len(modules) == 2 + 2 * 2
    assert [module.attend for module in modules] == attends
    assert all(module.training for module in model.modules())


def test_threads_that_look_into_a_model_at_once_find_what_one_finds(tiny_model: Any) -> None:
    model = tiny_model(num_layers=4, dropout=0.5).train()
    pairs = [([5 + i, 6, 7, 8][: 1 + i % 4], [9, 10, 4][: i % 3]) for i in range(6)] * 8
    expected = [capture_attention(model, *pair) for pair in pairs]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda pair: capture_attention(model, *pair), pairs))
    for weights, others in zip(found, expected, strict=True):
        for kind in ("encoder", "decoder", "cross"):
            assert torch.equal(getattr(weights, kind), getattr(others, kind))


SELF, PREVIOUS, NEXT, FIRST = (
    torch.eye(4),
    torch.eye(4).roll(-1, 1),
    torch.eye(4).roll(1, 1),
    torch.tensor([[1.0, 0, 0, 0]] * 4),
)
PREVIOUS[0] = torch.tensor([1.0, 0, 0, 0])
NEXT[3] = torch.tensor([0, 0, 0, 1.0])


def measured(weights: torch.Tensor, control: int = -1) -> dict[str, float]:
    return {name: float(value) for name, value in measure(weights, control).items()}


def test_a_head_that_looks_at_the_word_itself() -> None:
    found = measured(SELF)
    assert found == {"entropy": 0, "distance": 0, "diagonal": 1, "previous": 0, "next": 0, "control": 0.25}


def test_heads_that_look_at_neighbours() -> None:
    before, behind = measured(PREVIOUS), measured(NEXT)
    assert (before["previous"], before["next"], before["diagonal"]) == (1, 0, 0.25)
    assert (behind["previous"], behind["next"], behind["diagonal"]) == (0, 1, 0.25)
    assert before["distance"] == behind["distance"] == 0.75  # 0 + 1 + 1 + 1 by 4


def test_a_head_that_looks_at_a_control_symbol() -> None:
    assert measured(FIRST, control=0)["control"] == 1
    assert measured(FIRST)["control"] == 0
    assert measured(FIRST)["distance"] == 1.5  # 0 + 1 + 2 + 3 by 4
    assert measure(FIRST, None).keys() == measured(FIRST).keys() - {"control"}


def test_entropy_is_in_bits() -> None:
    assert measured(torch.full((2, 8), 1 / 8))["entropy"] == pytest.approx(3)
    assert measured(torch.tensor([[0.5, 0.25, 0.25], [1, 0, 0]]))["entropy"] == pytest.approx(0.75)


def test_across_sequences_the_diagonal_runs_from_first_to_last() -> None:
    weights = torch.zeros(3, 7)
    weights[[0, 1, 2], [0, 3, 6]] = 1
    assert measured(weights)["diagonal"] == 1
    assert measured(weights)["distance"] == 0
    assert measured(torch.eye(3)[[0, 0, 1, 1, 1, 2, 2]])["diagonal"] == 1  # a half is rounded up


def test_one_word_has_no_neighbours() -> None:
    found = measured(torch.ones(1, 1))
    assert found == {"entropy": 0, "distance": 0, "diagonal": 1, "previous": 0, "next": 0, "control": 1}


def test_each_head_is_measured_by_itself() -> None:
    together = measure(torch.stack([torch.stack([SELF, NEXT]), torch.stack([FIRST, PREVIOUS])]), -1)
    for place, weights in enumerate((SELF, NEXT, FIRST, PREVIOUS)):
        for name, value in measured(weights).items():
            assert float(together[name][place // 2, place % 2]) == value


@given(st.data())
def test_words_add_up_what_their_pieces_get_and_average_what_they_give(data: st.DataObject) -> None:
    sizes = st.lists(st.integers(1, 3), min_size=1, max_size=4)
    queries, keys = (groups(data.draw(sizes)) for _ in range(2))
    weights = torch.rand(2, 3, queries[-1][1], keys[-1][1]).double().softmax(-1)
    merged = merge_pieces(weights, queries, keys)
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            block = weights[1, 2, slice(*query), slice(*key)]
            assert float(merged[1, 2, i, j]) == pytest.approx(float(block.sum()) / len(block))
    torch.testing.assert_close(merged.sum(-1), torch.ones_like(merged.sum(-1)))


def groups(sizes: list[int]) -> list[tuple[int, int]]:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def test_links_go_from_the_source_word_of_which_a_word_takes_most() -> None:
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1]])
    assert strongest_links(weights) == [(0, 1), (1, 0)]
    assert strongest_links(torch.zeros(0, 3)) == []
    assert strongest_links(torch.zeros(3, 0)) == []


def test_agreement_is_one_less_the_alignment_error_rate() -> None:
    gold, found = [(0, 0), (1, 2), (2, 1)], [(0, 0), (1, 1)]
    precision, recall = 1 / 2, 1 / 3
    assert math.isclose(agreement(found, gold), 2 * precision * recall / (precision + recall))
    assert agreement(gold, gold) == 1
    assert agreement([], []) == 0
