"""Equation 1 by hand, over random shapes, and beside PyTorch's own attention."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from allyouneed.model.attention import (
    AttentionFunction,
    CrossAttention,
    SelfAttention,
    attention_weights,
    fused_attention,
    scaled_dot_product_attention,
)
from allyouneed.model.masks import causal_mask

D_MODEL, NUM_HEADS = 12, 3
both_forms = pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention])

sizes = st.integers(min_value=1, max_value=9)


def random_inputs(shape: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, key, value, and a mask that opens at least one key to every query."""
    batch, heads, query_len, key_len, d_k, d_v = shape
    generator = torch.Generator().manual_seed(seed)
    query = 3 * torch.randn(batch, heads, query_len, d_k, generator=generator)
    key = torch.randn(batch, heads, key_len, d_k, generator=generator)
    value = torch.randn(batch, heads, key_len, d_v, generator=generator)
    mask = torch.rand(batch, 1, query_len, key_len, generator=generator) < 0.5
    always_open = torch.randint(key_len, (batch, 1, query_len, 1), generator=generator)
    return query, key, value, mask.scatter(-1, always_open, torch.tensor(True).expand_as(always_open))


@both_forms
def test_attention_with_two_keys_is_what_a_sum_by_hand_gives(attend: AttentionFunction) -> None:
    query = torch.tensor([[[[2.0, 0.0, 0.0, 0.0]]]])
    key = torch.tensor([[[[math.log(3), 1.0, 1.0, 1.0], [0.0, 5.0, 5.0, 5.0]]]])
    value = torch.tensor([[[[4.0, 8.0, 0.0], [0.0, 4.0, 20.0]]]])
    mask = torch.ones(1, 1, 1, 2, dtype=torch.bool)
    # Scores 2 log 3 / sqrt(4) = log 3 and 0: weights 3/4 and 1/4.
    assert attention_weights(query, key, mask).flatten().tolist() == pytest.approx([0.75, 0.25])
    assert attend(query, key, value, mask).flatten().tolist() == pytest.approx([3.0, 7.0, 5.0])


@settings(max_examples=50)
@given(st.tuples(sizes, sizes, sizes, sizes, sizes, sizes), st.integers(0, 1000))
def test_the_weights_of_every_query_are_at_its_open_keys_and_sum_to_one(
    shape: tuple[int, ...], seed: int
) -> None:
    query, key, _, mask = random_inputs(shape, seed)
    weights = attention_weights(query, key, mask)
    assert weights.shape == (*query.shape[:-1], key.size(-2))
    assert (weights >= 0).all()
    assert (weights.masked_select(~mask) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(query.shape[:-1]))


@settings(max_examples=50)
@given(st.tuples(sizes, sizes, sizes, sizes, sizes, sizes), st.integers(0, 1000))
def test_both_forms_equal_a_loop_over_queries(shape: tuple[int, ...], seed: int) -> None:
    query, key, value, mask = random_inputs(shape, seed)
    expected = torch.empty(*query.shape[:-1], value.size(-1))
    for batch, head, position in (
        torch.cartesian_prod(*map(torch.arange, query.shape[:-1])).view(-1, 3).tolist()
    ):
        open_keys = mask[batch, 0, position]
        scores = key[batch, head, open_keys] @ query[batch, head, position] / math.sqrt(query.size(-1))
        weights = (scores - scores.max()).exp()
        expected[batch, head, position] = weights / weights.sum() @ value[batch, head, open_keys]
    for attend in (scaled_dot_product_attention, fused_attention):
        torch.testing.assert_close(attend(query, key, value, mask), expected, atol=1e-5, rtol=1e-5)


def test_the_gradients_of_both_forms_are_equal() -> None:
    *tensors, mask = random_inputs((2, 3, 5, 7, 4, 6), seed=0)
    query, key, value = (tensor.double().requires_grad_() for tensor in tensors)
    weight = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    plain, fused = (
        torch.autograd.grad((attend(query, key, value, mask) * weight).sum(), (query, key, value))
        for attend in (scaled_dot_product_attention, fused_attention)
    )
    torch.testing.assert_close(plain, fused)


def test_large_scores_do_not_overflow() -> None:
    query = torch.full((1, 1, 1, 4), 1e4)
    key = torch.tensor([[[[1e4] * 4, [-1e4] * 4]]])
    weights = attention_weights(query, key, torch.ones(1, 1, 1, 2, dtype=torch.bool))
    assert weights.flatten().tolist() == [1.0, 0.0]


def pytorch_attention(weight: Tensor, bias: Tensor, output: nn.Linear) -> nn.MultiheadAttention:
    attention = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)
    attention.load_state_dict(
        {
            "in_proj_weight": weight,
            "in_proj_bias": bias,
            "out_proj.weight": output.weight,
            "out_proj.bias": output.bias,
        }
    )
    return attention


def randomise_biases(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)


@both_forms
def test_self_attention_equals_pytorchs_module(attend: AttentionFunction) -> None:
    torch.manual_seed(0)
    ours = SelfAttention(D_MODEL, NUM_HEADS, 4, 4, bias=True)
    randomise_biases(ours)
    ours.attend = attend
    theirs = pytorch_attention(ours.query_key_value.weight, ours.query_key_value.bias, ours.output)
    x, mask = torch.randn(2, 5, D_MODEL), causal_mask(5)
    expected, weights = theirs(x, x, x, attn_mask=~mask[0, 0], average_attn_weights=False)
    torch.testing.assert_close(ours(x, mask), expected)
    query, key, _ = ours.project(x)
    torch.testing.assert_close(attention_weights(query, key, mask), weights)


@both_forms
def test_cross_attention_equals_pytorchs_module(attend: AttentionFunction) -> None:
    torch.manual_seed(0)
    ours = CrossAttention(D_MODEL, NUM_HEADS, 4, 4, bias=True)
    randomise_biases(ours)
    ours.attend = attend
    weight = torch.cat([ours.query.weight, ours.key_value.weight])
    theirs = pytorch_attention(weight, torch.cat([ours.query.bias, ours.key_value.bias]), ours.output)
    x, memory = torch.randn(2, 5, D_MODEL), torch.randn(2, 7, D_MODEL)
    open_keys = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    expected, _ = theirs(x, memory, memory, key_padding_mask=~open_keys)
    torch.testing.assert_close(ours(x, memory, open_keys[:, None, None, :]), expected)


def test_the_widths_of_keys_and_values_are_free() -> None:
    attention = SelfAttention(D_MODEL, num_heads=2, d_k=5, d_v=3, bias=False)
    query, key, value = attention.project(torch.randn(2, 7, D_MODEL))
    assert (query.shape, key.shape, value.shape) == ((2, 2, 7, 5), (2, 2, 7, 5), (2, 2, 7, 3))
    assert attention(torch.randn(2, 7, D_MODEL), causal_mask(7)).shape == (2, 7, D_MODEL)


def test_without_biases_there_are_none() -> None:
    for attention in (
        SelfAttention(D_MODEL, 3, 4, 4, bias=False),
        CrossAttention(D_MODEL, 3, 4, 4, bias=False),
    ):
        assert not [name for name, _ in attention.named_parameters() if name.endswith("bias")]
