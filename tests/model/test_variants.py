"""Every variant of the model beside an independent formula, and its gradient beside the slope of its loss."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.model.attention import (
    AdditiveCompatibility,
    SelfAttention,
    SoftmaxAttention,
    dot_products,
    fused_attention,
)
from allyouneed.model.dropout import SymbolDropout
from allyouneed.model.feed_forward import AttentionOverParameters, FeedForward
from allyouneed.model.layers import EncoderLayer, NormAndAdd
from allyouneed.model.masks import causal_mask, padding_mask
from allyouneed.model.position_tables import concatenated_sinusoids, fairseq_sinusoids, sinusoids
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, SENTINEL, START

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "unscaled": {"attention": "unscaled"},
    "additive": {"attention": "additive"},
    "over parameters": {"feed_forward": "parameters", "parameter_heads": 2, "parameter_pairs": 7},
    "pre-norm": {"norm": "pre"},
    "concatenated positions": {"positions": "concatenated"},
    "fairseq positions": {"positions": "fairseq"},
    "zeros at the start": {"decoder_start": "zeros"},
    "end at the start": {"decoder_start": "end"},
    "target space": {"target_space": True},
    "learned positions": {"positions": "learned", "max_positions": 9},
    "attention dropout": {"attention_dropout": 0.2},
    "no biases": {"attention_bias": False},
}
SOURCE = torch.tensor([[9, 5, 12, 7, 2], [6, 16, 2, 0, 0]])
TARGET = torch.tensor([[1, 8, 8, 11], [1, 13, 5, 0]])


def tiny_model(**settings: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 14, "d_ff": 22, "num_layers": 2, "num_heads": 2, "d_k": 5, "d_v": 4}
    config = ModelConfig(**{"source_vocab_size": 17, "target_vocab_size": 17, **sizes, **settings})
    return Transformer(config).double().eval()


# --- compatibility of queries and keys (3.2.1)


def test_additive_compatibility_is_the_network_of_bahdanau() -> None:
    torch.manual_seed(0)
    W, U, w = torch.randn(5, 6), torch.randn(5, 7), torch.randn(5)
    decoder_states, encoder_states = torch.randn(3, 6), torch.randn(4, 7)
    compatibility = AdditiveCompatibility(num_heads=1, d_k=5)
    with torch.no_grad():
        compatibility.weight.copy_(w[None])
        query, key = decoder_states @ W.T, encoder_states @ U.T
        found = compatibility(query[None, None], key[None, None])[0, 0]
    expected = [[w @ torch.tanh(W @ s + U @ h) for h in encoder_states] for s in decoder_states]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_each_head_has_weights_of_its_own() -> None:
    compatibility = AdditiveCompatibility(num_heads=2, d_k=1)
    with torch.no_grad():
        compatibility.weight.copy_(torch.tensor([[2.0], [-3.0]]))
        found = compatibility(torch.full((1, 2, 1, 1), 0.25), torch.full((1, 2, 1, 1), 0.5))
    assert found.flatten().tolist() == pytest.approx([2 * math.tanh(0.75), -3 * math.tanh(0.75)])


def test_dot_products_are_not_divided() -> None:
    query, key = torch.tensor([[[[2.0, 0.0, 1.0, 1.0]]]]), torch.tensor([[[[3.0, 5.0, 1.0, 0.0]]]])
    assert dot_products(query, key).item() == 7.0
    model = tiny_model(attention="unscaled")
    assert {m.plain.compatibility for m in model.modules() if isinstance(m, SelfAttention)} == {dot_products}


def test_unscaled_attention_is_that_of_queries_sqrt_d_k_times_as_long() -> None:
    unscaled, scaled = tiny_model(attention="unscaled"), tiny_model()
    with torch.no_grad():
        for layer in unscaled.encoder:
            assert isinstance(layer, EncoderLayer)
            layer.self_attention.query_key_value.weight[: 2 * 5] /= math.sqrt(5)
        torch.testing.assert_close(unscaled.encode(SOURCE), scaled.encode(SOURCE))


# --- dropout of weights and of symbols


def test_dropout_of_weights_leaves_some_out_and_makes_the_others_larger() -> None:
    torch.manual_seed(0)
    attention = SoftmaxAttention(dropout=0.25).train()
    zeros, identity = torch.zeros(1, 1, 200, 8), torch.eye(8)[None, None]
    mixed = attention(zeros, torch.zeros(1, 1, 8, 8), identity, torch.ones(1, 1, 1, 8, dtype=torch.bool))
    assert sorted(set(mixed.flatten().tolist())) == pytest.approx([0, 1 / 8 / 0.75])
    assert (mixed == 0).float().mean().item() == pytest.approx(0.25, abs=0.05)
    assert len(set(map(tuple, mixed[0, 0].tolist()))) > 20, "every query draws its own"
    torch.testing.assert_close(
        attention.eval()(zeros, zeros, zeros, causal_mask(200)), torch.zeros(1, 1, 200, 8)
    )


def test_a_faster_form_takes_the_place_of_equation_1_only() -> None:
    for settings, expected in (
        ({}, fused_attention),
        ({"attention_dropout": 0.1}, None),
        (
            {"attention": "additive"},
            None,
        ),
    ):
        model = tiny_model(**settings)
        model.use_attention(fused_attention)
        assert model.encoder[0].self_attention.attend is expected  # type: ignore[union-attr]


def test_symbols_are_replaced_at_the_rate_and_start_and_padding_never() -> None:
    torch.manual_seed(0)
    ids = torch.full((100, 100), 7)
    ids[:, 0], ids[:, 90:] = START, PADDING
    found = SymbolDropout(0.1).train()(ids)
    assert set(found[:, 1:90].flatten().tolist()) == {7, SENTINEL}
    assert (found[:, 1:90] == SENTINEL).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert (found[:, 0] == START).all(), "the authors' code shifts it in afterwards"
    assert (found[:, 90:] == PADDING).all()
    assert (ids[:, 1:90] == 7).all(), "labels are made of the same ids"
    assert torch.equal(SymbolDropout(0.1).eval()(ids), ids)


def test_a_model_reads_the_sentinel_in_the_place_of_dropped_symbols() -> None:
    model = tiny_model(symbol_dropout=0.999999, dropout=0.0).train()
    sentinels = torch.where(SOURCE == PADDING, PADDING, SENTINEL)
    read = torch.where((TARGET == PADDING) | (TARGET == START), TARGET, SENTINEL)
    found = model(SOURCE, TARGET)
    torch.testing.assert_close(found, model.eval()(sentinels, read))


# --- attention over parameters (unpublished appendix)


@pytest.mark.parametrize("name", ["aop1", "aop2"])
def test_a_sub_layer_of_the_paper_has_2097152_parameters(name: str) -> None:
    config = PRESETS[name]().model
    with torch.device("meta"):
        sublayer = Transformer(config).encoder[0].feed_forward
    assert isinstance(sublayer, AttentionOverParameters)
    assert sum(parameter.numel() for parameter in sublayer.parameters()) == 2_097_152


def test_attention_over_parameters_is_multi_head_attention_whose_keys_and_values_are_parameters() -> None:
    torch.manual_seed(0)
    d_model, heads, d_k, d_v, pairs = 6, 2, 5, 3, 7
    sublayer = AttentionOverParameters(d_model, heads, d_k, d_v, pairs).double()
    for parameter in sublayer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 4, d_model, dtype=torch.float64)
    expected = torch.zeros(2, 4, d_model, dtype=torch.float64)
    for head in range(heads):
        W_q = sublayer.query.weight[head * d_k : (head + 1) * d_k]
        W_o = sublayer.output.weight[:, head * d_v : (head + 1) * d_v]
        K, V = (math.sqrt(d_model) * p[head] for p in (sublayer.keys, sublayer.values))
        for batch, position in torch.cartesian_prod(torch.arange(2), torch.arange(4)).tolist():
            scores = torch.stack([(W_q @ x[batch, position]) @ k / math.sqrt(d_k) for k in K])
            weights = scores.exp() / scores.exp().sum()
            mixed = torch.stack([weight * v for weight, v in zip(weights, V, strict=True)]).sum(0)
            expected[batch, position] += W_o @ mixed
    torch.testing.assert_close(sublayer(x), expected)
    assert torch.autograd.gradcheck(sublayer, x.requires_grad_(), atol=1e-4)


def test_a_dropped_value_is_left_out_for_all_positions_of_its_head() -> None:
    torch.manual_seed(0)
    sublayer = AttentionOverParameters(4, 2, 3, 2, 50, dropout=0.5).train()
    with torch.no_grad():
        sublayer.keys.zero_()
        sublayer.values.fill_(1 / sublayer.scale)
        nn.init.eye_(sublayer.output.weight)
        found = sublayer(torch.randn(9, 4))
    assert (found == found[0]).all()
    assert found[0, 0] == found[0, 1] != found[0, 2] == found[0, 3]


# --- pre-norm


def test_a_pre_norm_layer_equals_pytorchs() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(12, 3, 4, 4, bias=True)
    ours = EncoderLayer(attention, FeedForward(12, 20), lambda: NormAndAdd(12, 0.0, 1e-6))
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, batch_first=True, layer_norm_eps=1e-6, norm_first=True
    )
    own = ours.state_dict()
    weights: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        weights |= {
            f"self_attn.in_proj_{kind}": own[f"self_attention.query_key_value.{kind}"],
            f"self_attn.out_proj.{kind}": own[f"self_attention.output.{kind}"],
            f"linear1.{kind}": own[f"feed_forward.inner.{kind}"],
            f"linear2.{kind}": own[f"feed_forward.outer.{kind}"],
            f"norm1.{kind}": own[f"after_self_attention.norm.{kind}"],
            f"norm2.{kind}": own[f"after_feed_forward.norm.{kind}"],
        }
    theirs.load_state_dict(weights)
    x, ids = torch.randn(2, 5, 12), SOURCE
    real = ids != PADDING
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, padding_mask(ids))[real], expected[real])


def test_what_leaves_a_pre_norm_stack_is_normalised_and_a_post_norm_model_has_no_more_norms() -> None:
    model = tiny_model(norm="pre")
    with torch.no_grad():
        for states in (model.encode(SOURCE), model(SOURCE, TARGET)):
            torch.testing.assert_close(states.mean(-1), torch.zeros_like(states.mean(-1)))
            torch.testing.assert_close(
                states.var(-1, correction=0), torch.ones_like(states[..., 0]), atol=1e-3, rtol=0
            )
    assert not [
        name for name in tiny_model().state_dict() if name.startswith(("encoder_norm", "decoder_norm"))
    ]


# --- the code of 2017


def test_concatenated_sinusoids_end_at_a_wavelength_of_ten_thousand_turns() -> None:
    found = concatenated_sinusoids(3, 6)
    for position in range(3):
        angles = [position, position / 100, position / 10_000]  # exponents 0, 1/2, 1
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert found[position].tolist() == pytest.approx(expected)
    assert abs(found - sinusoids(3, 6)).max() > 0.01


def test_the_first_input_of_the_decoder_is_its_position_alone() -> None:
    model = tiny_model(decoder_start="zeros")
    ids = torch.tensor([[START, 7]])
    embedded = model.embed("target", ids)[0]
    torch.testing.assert_close(embedded[0], model.target_positions(1)[0])
    row = model.embeddings.matrix("target")[7] * math.sqrt(14)
    torch.testing.assert_close(embedded[1], row + model.target_positions(2)[1])
    assert model.embed("source", ids)[0, 0].abs().max() > 1.5, "a source has no start"


def test_fairseq_counts_positions_from_two_and_starts_with_the_end_symbol() -> None:
    assert (fairseq_sinusoids(3, 6) == concatenated_sinusoids(5, 6)[2:]).all()
    model = tiny_model(positions="fairseq", decoder_start="end")
    read, expected = (model.embed("target", torch.tensor([[token, 7]])) for token in (START, END))
    torch.testing.assert_close(read, expected)
    assert (
        model.embed("source", torch.tensor([[START]])) - model.embed("source", torch.tensor([[END]]))
    ).any()


def test_the_vector_of_the_target_space_is_added_to_every_source_position() -> None:
    model = tiny_model(target_space=True)
    spaces = model.source_positions.spaces
    assert isinstance(spaces, Tensor)
    assert spaces.shape == (32, 14)
    plain = tiny_model().source_positions(5)
    torch.testing.assert_close(model.source_positions(5), plain + spaces[0])
    torch.testing.assert_close(model.target_positions(5), plain)


# --- all of them


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_is_the_slope_of_the_loss(variant: str) -> None:
    model = tiny_model(**VARIANTS[variant])
    gold = torch.tensor([8, 8, 11, 2, 13, 5, 2])
    real = TARGET != PADDING

    def loss() -> Tensor:
        return functional.cross_entropy(model.project(model(SOURCE, TARGET)[real]), gold)

    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
    directions = [torch.randn_like(parameter) for parameter in parameters]
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None)
    values, distance = [], 1e-6
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=sign * distance)
            values.append(loss())
    torch.testing.assert_close(slope, (values[0] - values[1]) / (2 * distance), rtol=1e-4, atol=1e-6)
    unused = [n for (n, _), g in zip(model.named_parameters(), gradients, strict=True) if g is None]
    assert not unused


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_position_of_any_variant_sees_padding_or_the_future(variant: str) -> None:
    model = tiny_model(**VARIANTS[variant])
    with torch.no_grad():
        states = model(SOURCE, TARGET)
        longer = model(functional.pad(SOURCE, (0, 2)), functional.pad(TARGET, (0, 1), value=9))
    torch.testing.assert_close(longer[:, :-1][TARGET != PADDING], states[TARGET != PADDING])
