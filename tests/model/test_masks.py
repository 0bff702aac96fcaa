"""Masks are open where a query may attend, and every row has an open position."""

import pytest
import torch
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.model.attention import AttentionFunction, fused_attention, scaled_dot_product_attention
from allyouneed.model.masks import PackedIds, PackedMask, causal_mask, pack, padding_mask
from allyouneed.model.transformer import Transformer


def test_padding_is_closed_and_the_first_position_is_always_open() -> None:
    mask = padding_mask(torch.tensor([[5, 6, 2], [5, 2, 0], [0, 0, 0]]))
    assert mask.shape == (3, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, True], [True, True, False], [True, False, False]]


def test_each_position_sees_itself_and_what_is_before_it() -> None:
    mask = causal_mask(4)
    assert mask.shape == (1, 1, 4, 4)
    assert [[query >= key for key in range(4)] for query in range(4)] == mask[0, 0].tolist()


def test_control_symbols_other_than_padding_are_open() -> None:
    assert padding_mask(torch.tensor([[1, 2, 3, 4]])).all()


CPU = torch.device("cpu")
SOURCE = torch.tensor([[9, 5, 12, 7, 2], [6, 16, 2, 0, 0], [2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 8, 8, 11, 0, 0], [1, 13, 5, 14, 10, 6], [1, 0, 0, 0, 0, 0]])


def tiny_model(**settings: object) -> Transformer:
    sizes: dict[str, object] = {"d_model": 32, "d_ff": 48, "num_layers": 2, "num_heads": 2, "dropout": 0.0}
    torch.manual_seed(0)
    return Transformer(ModelConfig(source_vocab_size=17, target_vocab_size=17, **(sizes | settings)))  # type: ignore[arg-type]


def states_and_gradient(
    model: Transformer, source: Tensor | PackedIds, target: Tensor | PackedIds
) -> tuple[Tensor, Tensor]:
    """The hidden states of real target tokens, and the gradient of a sum of them with unequal weights."""
    hidden = model(source, target)
    states = hidden[0] if isinstance(target, PackedIds) else hidden[target != 0]
    weights = torch.linspace(-1, 1, states.numel(), dtype=states.dtype, device=states.device)
    model.zero_grad()
    (states * weights.view_as(states)).sum().backward()
    return states.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_packed_are_the_real_tokens_with_their_positions() -> None:
    packed = pack(SOURCE, CPU)
    assert packed.ids.tolist() == [[9, 5, 12, 7, 2, 6, 16, 2, 2]]
    assert packed.positions.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0]
    assert packed.bounds.tolist() == [0, 5, 8, 9]
    assert packed.longest == 5


def test_the_mask_opens_a_sentence_to_itself_and_if_causal_to_its_past() -> None:
    packed = pack(torch.tensor([[5, 2], [2, 0]]), CPU)
    own = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert PackedMask(packed, packed).dense()[0, 0].int().tolist() == own
    past = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert PackedMask(packed, packed, causal=True).dense()[0, 0].int().tolist() == past


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention])
@pytest.mark.parametrize(
    "settings", [{}, {"positions": "learned", "max_positions": 9}, {"d_k": 5, "d_v": 3}], ids=str
)
def test_packed_sentences_have_the_states_and_gradients_of_padded_ones(
    attend: AttentionFunction, settings: dict[str, object]
) -> None:
    model = tiny_model(**settings).double()
    expected = states_and_gradient(model, SOURCE, TARGET)
    model.use_attention(attend)
    found = states_and_gradient(model, pack(SOURCE, CPU), pack(TARGET, CPU))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.gpu
def test_flash_attention_over_packed_sentences_is_the_plain_one_within_its_precision() -> None:
    gpu = torch.device("cuda")
    model = tiny_model().to(gpu)
    expected = states_and_gradient(model, SOURCE.to(gpu), TARGET.to(gpu))
    model.use_attention(fused_attention)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = states_and_gradient(model, pack(SOURCE, gpu), pack(TARGET, gpu))
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0.02, check_dtype=False)
