"""A layer is post-norm, in the paper's order, and equals PyTorch's layer with the same weights."""

from typing import Any

import torch
from torch import Tensor, nn

from allyouneed.model.attention import CrossAttention, SelfAttention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddAndNorm, DecoderLayer, EncoderLayer
from allyouneed.model.masks import causal_mask, padding_mask

D_MODEL, D_FF, NUM_HEADS = 12, 20, 3
ATTENTION = D_MODEL, NUM_HEADS, D_MODEL // NUM_HEADS, D_MODEL // NUM_HEADS, True
PYTORCH: dict[str, Any] = {
    "dim_feedforward": D_FF,
    "dropout": 0.0,
    "batch_first": True,
    "layer_norm_eps": 1e-6,
}


def add_and_norm() -> AddAndNorm:
    return AddAndNorm(D_MODEL, dropout=0.0, epsilon=1e-6)


def randomised(layer: nn.Module) -> dict[str, Tensor]:
    torch.manual_seed(0)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.state_dict()


def pytorch_names(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under the names of `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer`."""
    norms = [name for name in ours if name.endswith(".norm.weight")]
    theirs = {}
    for kind in ("weight", "bias"):
        theirs[f"self_attn.in_proj_{kind}"] = ours[f"self_attention.query_key_value.{kind}"]
        theirs[f"self_attn.out_proj.{kind}"] = ours[f"self_attention.output.{kind}"]
        theirs[f"linear1.{kind}"] = ours[f"feed_forward.inner.{kind}"]
        theirs[f"linear2.{kind}"] = ours[f"feed_forward.outer.{kind}"]
        for number, norm in enumerate(norms, start=1):
            theirs[f"norm{number}.{kind}"] = ours[norm.replace("weight", kind)]
        if f"cross_attention.query.{kind}" in ours:
            packed = [ours[f"cross_attention.{name}.{kind}"] for name in ("query", "key_value")]
            theirs[f"multihead_attn.in_proj_{kind}"] = torch.cat(packed)
            theirs[f"multihead_attn.out_proj.{kind}"] = ours[f"cross_attention.output.{kind}"]
    return theirs


def test_the_sum_is_normalised_after_the_residual_connection() -> None:
    sublayer = AddAndNorm(2, dropout=0.0, epsilon=1e-6)
    # The sums are 1 + 2 and 3 + 6: mean 6, deviation 3.
    normed = sublayer(torch.tensor([1.0, 3.0]), lambda x: 2 * x)
    torch.testing.assert_close(normed, torch.tensor([-1.0, 1.0]))


def test_dropout_is_on_the_sub_layers_output_and_not_on_the_residual() -> None:
    sublayer = AddAndNorm(1000, dropout=0.5, epsilon=1e-6).train()
    seen: list[Tensor] = []
    sublayer.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    sublayer(torch.full((1000,), 3.0), torch.ones_like)
    assert set(seen[0].tolist()) == {3.0, 5.0}


def test_the_encoder_layer_equals_pytorchs() -> None:
    ours = EncoderLayer(SelfAttention(*ATTENTION), FeedForward(D_MODEL, D_FF), add_and_norm)
    theirs = nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, **PYTORCH)
    theirs.load_state_dict(pytorch_names(randomised(ours)))
    ids = torch.tensor([[5, 6, 7, 2, 0], [5, 2, 0, 0, 0]])
    x = torch.randn(2, 5, D_MODEL)
    real = ids != 0
    expected = theirs(x, src_key_padding_mask=~real)
    torch.testing.assert_close(ours(x, padding_mask(ids))[real], expected[real])


def test_the_decoder_layer_equals_pytorchs() -> None:
    ours = DecoderLayer(
        SelfAttention(*ATTENTION), CrossAttention(*ATTENTION), FeedForward(D_MODEL, D_FF), add_and_norm
    )
    theirs = nn.TransformerDecoderLayer(D_MODEL, NUM_HEADS, **PYTORCH)
    theirs.load_state_dict(pytorch_names(randomised(ours)))
    source = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
    x, memory = torch.randn(2, 3, D_MODEL), torch.randn(2, 4, D_MODEL)
    expected = theirs(
        x, memory, tgt_mask=~causal_mask(3)[0, 0], memory_key_padding_mask=source == 0, tgt_is_causal=False
    )
    torch.testing.assert_close(ours(x, memory, causal_mask(3), padding_mask(source)), expected)
