"""Restricted self-attention equals full attention with all but the neighbourhood masked, and costs less."""

import functools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from allyouneed.config.model import ModelConfig, Reach
from allyouneed.model.attention import (
    AdditiveCompatibility,
    AttentionFunction,
    SoftmaxAttention,
    dot_products,
    fused_attention,
    scaled_dot_product_attention,
)
from allyouneed.model.masks import PackedMask, pack
from allyouneed.model.neighbourhood import NeighbourhoodMask
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import PADDING

FORMS: dict[str, AttentionFunction] = {
    "plain": scaled_dot_product_attention,
    "fused": fused_attention,
    "module": SoftmaxAttention(),
    "unscaled": SoftmaxAttention(dot_products),
}


def by_hand(mask: NeighbourhoodMask) -> list[list[list[bool]]]:
    """The rule of section 4, for one query and key after the other."""
    batch, length = mask.real.shape
    return [
        [
            [
                query == key
                or (
                    query - key <= mask.reach.before
                    and key - query <= mask.reach.after
                    and bool(mask.real[row, key])
                )
                for key in range(length)
            ]
            for query in range(length)
        ]
        for row in range(batch)
    ]


def inputs(batch: int, length: int, seed: int = 0, heads: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, heads, length, width, generator=generator) for width in (4, 4, 3)]


def tokens(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(0, 12), st.integers(0, 12))
def test_the_mask_opens_the_tokens_near_a_query_and_itself(
    lengths: list[int], before: int, after: int
) -> None:
    mask = NeighbourhoodMask(tokens(lengths), Reach(before, after))
    assert mask.dense()[:, 0].tolist() == by_hand(mask)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    before=st.integers(0, 70),
    after=st.integers(0, 70),
)
def test_blocks_of_neighbours_give_what_masked_full_attention_gives(
    form: str, lengths: list[int], before: int, after: int
) -> None:
    mask = NeighbourhoodMask(tokens(lengths), Reach(before, after))
    query, key, value = inputs(len(lengths), max(lengths), seed=before)
    attend = FORMS[form]
    expected = attend(query, key, value, mask.dense())
    torch.testing.assert_close(attend(query, key, value, mask), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", ["plain", "fused"])
@pytest.mark.parametrize("causal", [False, True])
def test_long_sentences_have_the_result_and_gradients_of_masked_full_attention(
    form: str, causal: bool
) -> None:
    mask = NeighbourhoodMask(tokens([4_096]), Reach(64, 0 if causal else 64))
    query, key, value = tensors = [x.requires_grad_() for x in inputs(1, 4_096, heads=1)]
    weight = torch.randn(1, 1, 4_096, 3)
    found, expected = (FORMS[form](query, key, value, given) for given in (mask, mask.dense()))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    gradients = [torch.autograd.grad((each * weight).sum(), tensors) for each in (found, expected)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_gradients_are_those_of_masked_full_attention(form: str) -> None:
    mask = NeighbourhoodMask(tokens([150, 91]), Reach(7, 7))
    query, key, value = tensors = [x.double().requires_grad_() for x in inputs(2, 150)]
    weight = torch.randn(2, 2, 150, 3, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((FORMS[form](query, key, value, given) * weight).sum(), tensors)
        for given in (mask, mask.dense())
    )
    torch.testing.assert_close(found, expected)


def test_additive_attention_is_restricted_too_and_dropout_is_of_weights_in_the_neighbourhood() -> None:
    torch.manual_seed(0)
    compatibility = AdditiveCompatibility(num_heads=2, d_k=4)
    torch.nn.init.normal_(compatibility.weight)
    mask = NeighbourhoodMask(tokens([120]), Reach(3, 0))
    query, key, value = inputs(1, 120)
    attend = SoftmaxAttention(compatibility)
    torch.testing.assert_close(attend(query, key, value, mask), attend(query, key, value, mask.dense()))
    dropped = SoftmaxAttention(dropout=0.5).train()(
        torch.zeros_like(query), key, torch.ones_like(value), mask
    )
    # Four equal weights of 1/4, each doubled or dropped; before position 3 there are fewer.
    assert {round(float(sum_), 4) for sum_ in dropped[0, :, 3:].flatten()} == {0.0, 0.5, 1.0, 1.5, 2.0}


class LargestTensor(TorchDispatchMode):
    """The most numbers of any tensor that an operation returns."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                self.numel = max(self.numel, part.untyped_storage().nbytes() // part.element_size())
        return result


@pytest.mark.parametrize("form", ["plain", "fused"])
def test_no_tensor_grows_with_the_square_of_the_length_and_the_cost_is_linear(form: str) -> None:
    largest = []
    for length in (1_024, 2_048):
        with LargestTensor() as seen:  # type: ignore[no-untyped-call]
            query, key, value = (x.requires_grad_() for x in inputs(1, length, heads=1))
            mask = NeighbourhoodMask(tokens([length]), Reach(16, 16))
            FORMS[form](query, key, value, mask).sum().backward()
        largest.append(seen.numel)
    assert largest[1] == 2 * largest[0] < 2_048**2 / 8


@pytest.mark.parametrize("r", [1, 2, 5, 8])
def test_every_query_has_r_keys_where_the_sentence_has_so_many(r: int) -> None:
    config = ModelConfig(neighbourhood=r)
    for causal in (False, True):
        reach = config.reach(causal=causal)
        assert reach
        num_keys = NeighbourhoodMask(tokens([40]), reach).dense().sum(-1)[0, 0, 10:30]
        assert num_keys.tolist() == [r] * 20


SOURCE = torch.tensor([[4 + i % 13 for i in range(90)], [7] * 40 + [PADDING] * 50])
TARGET = torch.tensor([[1] + [5 + i % 11 for i in range(79)], [1] + [9] * 30 + [PADDING] * 49])


def tiny_model(**settings: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 14, "d_ff": 22, "num_layers": 2, "num_heads": 2, "d_k": 5, "d_v": 4, "dropout": 0.0}
    config = ModelConfig(**{"source_vocab_size": 17, "target_vocab_size": 17, **sizes, **settings})
    return Transformer(config).double()


def test_each_position_of_a_model_sees_as_far_as_its_layers_reach_and_the_whole_source() -> None:
    model = tiny_model(neighbourhood=9).eval()  # 4 to either side per layer; 8 before
    with torch.no_grad():
        memory, states = model.encode(SOURCE), model(SOURCE, TARGET)
        source, target = SOURCE.clone(), TARGET.clone()
        source[0, 20], target[0, 30] = 16, 16
        changed = (model.encode(source) != memory).any(-1)
        assert changed[0].nonzero().flatten().tolist() == list(range(20 - 8, 20 + 8 + 1))
        changed = (model(SOURCE, target) != states).any(-1)
        assert changed[0].nonzero().flatten().tolist() == list(range(30, 30 + 16 + 1))
        assert (model(source, TARGET) != states).any(-1)[0].all()
    assert not changed[1].any()


def test_a_neighbourhood_as_long_as_the_sentence_restricts_nothing() -> None:
    free, near = tiny_model().eval(), tiny_model(neighbourhood=2 * 90).eval()
    real = TARGET != PADDING
    torch.testing.assert_close(near(SOURCE, TARGET)[real], free(SOURCE, TARGET)[real])


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention])
def test_packed_sentences_and_padded_ones_have_the_same_states_and_gradients(
    attend: AttentionFunction,
) -> None:
    model, real = tiny_model(neighbourhood=7, num_heads=2, d_k=7, d_v=7), TARGET != PADDING
    model.use_attention(attend)
    weights = torch.linspace(-1, 1, int(real.sum()) * 14, dtype=torch.float64).view(-1, 14)

    def states_and_gradient(states: Tensor) -> tuple[Tensor, ...]:
        return states, *torch.autograd.grad((states * weights).sum(), list(model.parameters()))

    cpu = torch.device("cpu")
    packed = states_and_gradient(model(pack(SOURCE, cpu), pack(TARGET, cpu))[0])
    torch.testing.assert_close(packed, states_and_gradient(model(SOURCE, TARGET)[real]))


def test_a_packed_mask_with_a_reach_opens_near_tokens_of_the_same_sentence() -> None:
    packed = pack(torch.tensor([[5, 6, 2], [5, 2, 0]]), torch.device("cpu"))
    near = [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
    assert PackedMask(packed, packed, reach=Reach(1, 1)).dense()[0, 0].int().tolist() == near
    past = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]
    assert PackedMask(packed, packed, causal=True, reach=Reach(1, 0)).dense()[0, 0].int().tolist() == past


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_over_packed_sentences_keeps_to_the_reach(causal: bool) -> None:
    gpu = torch.device("cuda")
    packed = pack(SOURCE, gpu)
    mask = PackedMask(packed, packed, causal, Reach(5, 0 if causal else 5))
    query, key, value = (torch.randn(1, 2, packed.ids.size(1), 16, device=gpu) for _ in range(3))
    expected = scaled_dot_product_attention(query, key, value, mask.dense())
    found = fused_attention(query.bfloat16(), key.bfloat16(), value.bfloat16(), mask)
    torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0.02)


def test_the_gradient_of_a_restricted_model_is_the_slope_of_its_loss() -> None:
    model = tiny_model(neighbourhood=5)
    parameters = list(model.parameters())

    def loss() -> Tensor:
        states: Tensor = model(SOURCE, TARGET)
        return states.square().mean(dim=(0, 1)) @ torch.linspace(-1, 1, 14).double()

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


def test_weights_of_attention_are_zero_outside_of_the_neighbourhood() -> None:
    mask = NeighbourhoodMask(tokens([200]), Reach(2, 2))
    query, key, _ = inputs(1, 200)
    weights = SoftmaxAttention().weights(query, key, mask)[0, 1]
    for position in (0, 1, 77, 199):
        near = range(max(0, position - 2), min(200, position + 3))
        exponentials = [math.exp(float(query[0, 1, position] @ key[0, 1, other]) / 2) for other in near]
        expected = torch.zeros(200)
        expected[list(near)] = torch.tensor(exponentials) / functools.reduce(float.__add__, exponentials)
        torch.testing.assert_close(weights[position], expected)
