"""The whole model: the paper's sizes, an independent forward pass, who sees whom, and the gradient."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.config.presets import PRESETS
from allyouneed.model.attention import AttentionFunction, fused_attention, scaled_dot_product_attention
from allyouneed.model.dropout import Dropout
from allyouneed.model.layers import AddAndNorm
from allyouneed.model.masks import padding_mask
from allyouneed.model.transformer import Transformer

VOCAB_SIZE = 17
D_K, D_V = 5, 4
SOURCE = torch.tensor([[9, 5, 12, 7, 2], [6, 16, 2, 0, 0], [2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 8, 8, 11, 0, 0, 0], [1, 13, 5, 14, 10, 6, 15], [1, 0, 0, 0, 0, 0, 0]])

Weights = dict[str, Tensor]
both_forms = pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention])


def tiny_model(seed: int = 0, dtype: torch.dtype = torch.float64, **settings: Any) -> Transformer:
    """A model with odd sizes, in which nothing is at its initial 0 or 1: biases and gains are drawn too."""
    sizes = {
        "d_model": 14,
        "d_ff": 22,
        "num_layers": 2,
        "num_heads": 3,
        "d_k": D_K,
        "d_v": D_V,
        "dropout": 0.0,
    }
    vocabularies = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
    torch.manual_seed(seed)
    model = Transformer(ModelConfig(**{**sizes, **vocabularies, **settings})).to(dtype)
    for name, parameter in model.named_parameters():
        if ".norm." in name or name.endswith("bias"):
            nn.init.uniform_(parameter, 0.3, 1.3)
    return model


# --- Sizes (Table 3)

PAPER_MILLIONS = {
    "base": 65,
    "table3_dk_16": 58,
    "table3_dk_32": 60,
    "table3_layers_2": 36,
    "table3_layers_4": 50,
    "table3_layers_8": 80,
    "table3_d_model_256": 28,
    "table3_d_model_1024": 168,
    "table3_d_ff_1024": 53,
    "table3_d_ff_4096": 90,
}
TARGET_SPACE_ROWS = 32
"""Of an embedding that the code of 2017 had besides, and ours has not."""
MILLIONS_OF_2017 = {
    "base": 65.13,
    "table3_dk_16": 58.03,
    "table3_dk_32": 60.40,
    "table3_layers_2": 35.70,
    "table3_layers_4": 50.41,
    "table3_layers_8": 79.84,
    "table3_d_model_256": 27.86,
    "table3_d_model_1024": 167.98,
    "table3_d_ff_1024": 52.53,
    "table3_d_ff_4096": 90.32,
}


def count_parameters(preset: str, vocab_size: int) -> int:
    sizes = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    with torch.device("meta"):
        model = Transformer(PRESETS[preset]().model.replace(**sizes))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("preset", PAPER_MILLIONS)
def test_a_row_of_table_3_has_the_papers_number_of_parameters(preset: str) -> None:
    parameters = count_parameters(preset, 40_960)
    assert round(parameters / 1e6) == PAPER_MILLIONS[preset]
    with_target_space = parameters + TARGET_SPACE_ROWS * PRESETS[preset]().model.d_model
    assert round(with_target_space / 1e6, 2) == MILLIONS_OF_2017[preset]


@pytest.mark.parametrize(("vocab_size", "millions"), [(40_960, 218.3), (36_000, 213.2)])
def test_big_has_the_papers_number_of_parameters_with_a_smaller_vocabulary(
    vocab_size: int, millions: float
) -> None:
    assert round(count_parameters("big", vocab_size) / 1e6, 1) == millions


def test_the_paper_counted_biases_in_attention() -> None:
    without_biases = PRESETS["base"]().model.replace(
        source_vocab_size=40_960, target_vocab_size=40_960, attention_bias=False
    )
    with torch.device("meta"):
        model = Transformer(without_biases)
    projections = 18 * 4 * 512
    assert sum(p.numel() for p in model.parameters()) == count_parameters("base", 40_960) - projections


# --- The forward pass, composed once more: sentence by sentence without padding, head by head without packing


def reference_hidden(config: ModelConfig, weights: Weights, source: Tensor, target: Tensor) -> Tensor:
    """Hidden states (target_len, d_model) of one sentence pair, from functions of `torch.nn.functional`."""
    names = {"all": ("shared", "shared")}.get(config.tied_embeddings, ("source", "target"))
    memory = reference_embed(config, weights, "source", names[0], source)
    for index in range(config.num_layers):
        layer = part(weights, f"encoder.{index}")
        memory = reference_self_attention(config, layer, memory, causal=False)
        memory = reference_feed_forward(config, layer, memory)
    x = reference_embed(config, weights, "target", names[1], target)
    for index in range(config.num_layers):
        layer = part(weights, f"decoder.{index}")
        x = reference_self_attention(config, layer, x, causal=True)
        x = reference_cross_attention(config, layer, x, memory)
        x = reference_feed_forward(config, layer, x)
    return x


def part(weights: Weights, prefix: str) -> Weights:
    return {n.removeprefix(f"{prefix}."): w for n, w in weights.items() if n.startswith(f"{prefix}.")}


def reference_embed(config: ModelConfig, weights: Weights, side: str, name: str, ids: Tensor) -> Tensor:
    embedded = functional.embedding(ids, weights[f"embeddings.matrices.{name}"]) * math.sqrt(config.d_model)
    if config.positions == "learned":
        return embedded + weights[f"{side}_positions.weight"][: len(ids)]
    angles = [
        [
            position / 10_000 ** (2 * (d // 2) / config.d_model) + (d % 2) * math.pi / 2
            for d in range(config.d_model)
        ]
        for position in range(len(ids))
    ]
    return embedded + torch.tensor(angles, dtype=torch.float64).sin()  # cos(a) = sin(a + pi / 2)


def reference_self_attention(config: ModelConfig, layer: Weights, x: Tensor, causal: bool) -> Tensor:
    packed = linear(layer, "self_attention.query_key_value", x)
    keys_end = config.num_heads * D_K
    query, key, value = packed[:, :keys_end], packed[:, keys_end : 2 * keys_end], packed[:, 2 * keys_end :]
    attended = linear(layer, "self_attention.output", heads_attend(config, query, key, value, causal))
    return normed(config, layer, "after_self_attention", x + attended)


def reference_cross_attention(config: ModelConfig, layer: Weights, x: Tensor, memory: Tensor) -> Tensor:
    packed = linear(layer, "cross_attention.key_value", memory)
    keys_end = config.num_heads * D_K
    query = linear(layer, "cross_attention.query", x)
    attended = heads_attend(config, query, packed[:, :keys_end], packed[:, keys_end:], causal=False)
    attended = linear(layer, "cross_attention.output", attended)
    return normed(config, layer, "after_cross_attention", x + attended)


def heads_attend(config: ModelConfig, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    heads = zip(query.split(D_K, dim=1), key.split(D_K, dim=1), value.split(D_V, dim=1), strict=True)
    results = []
    for one_query, one_key, one_value in heads:
        exponentials = (one_query @ one_key.T / math.sqrt(D_K)).exp()
        seen = exponentials.tril() if causal else exponentials
        results.append(seen / seen.sum(dim=1, keepdim=True) @ one_value)
    assert len(results) == config.num_heads
    return torch.cat(results, dim=1)


def reference_feed_forward(config: ModelConfig, layer: Weights, x: Tensor) -> Tensor:
    inside = functional.relu(linear(layer, "feed_forward.inner", x))
    return normed(config, layer, "after_feed_forward", x + linear(layer, "feed_forward.outer", inside))


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def normed(config: ModelConfig, weights: Weights, name: str, x: Tensor) -> Tensor:
    gain, bias = weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"]
    return functional.layer_norm(x, (config.d_model,), gain, bias, eps=config.layer_norm_epsilon)


@both_forms
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attention_bias": False},
        {"positions": "learned", "max_positions": 9},
        {"tied_embeddings": "none", "source_vocab_size": 23},
        {"tied_embeddings": "target", "layer_norm_epsilon": 0.1},
        {"num_heads": 1, "num_layers": 1},
    ],
    ids=str,
)
def test_the_forward_pass_equals_an_independent_one(
    settings: dict[str, Any], attend: AttentionFunction
) -> None:
    model = tiny_model(dtype=torch.float32, **settings).eval()
    model.use_attention(attend)
    hidden = model(SOURCE, TARGET)
    weights = {name: weight.double() for name, weight in model.state_dict().items()}
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        expected = reference_hidden(model.config, weights, source[source != 0], target[target != 0])
        torch.testing.assert_close(hidden[row, : len(expected)].double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("tying", ["all", "target", "none"])
def test_logits_are_products_with_the_rows_of_the_output_matrix(tying: str) -> None:
    model = tiny_model(tied_embeddings=tying)
    name = {"all": "shared", "target": "target", "none": "output"}[tying]
    hidden = torch.randn(3, 2, 14, dtype=torch.float64)
    expected = (hidden[..., None, :] * model.state_dict()[f"embeddings.matrices.{name}"]).sum(-1)
    torch.testing.assert_close(model.project(hidden), expected)


def test_the_encoder_takes_vectors_in_place_of_ids() -> None:
    model = tiny_model()
    vectors = model.embed("source", SOURCE)
    assert torch.equal(model.encode_vectors(vectors, padding_mask(SOURCE)), model.encode(SOURCE))


# --- Who sees whom (3.2.3)


@both_forms
def test_no_position_sees_its_future_and_each_sees_its_past(attend: AttentionFunction) -> None:
    model = tiny_model(dtype=torch.float32).eval()
    model.use_attention(attend)
    target = torch.tensor([[1, 8, 9, 11, 12, 6]])
    hidden = model(SOURCE[:1], target)
    for changed in range(target.size(1)):
        other = target.clone()
        other[0, changed] = 15
        hidden_of_other = model(SOURCE[:1], other)
        assert torch.equal(hidden_of_other[:, :changed], hidden[:, :changed])
        assert (hidden_of_other[:, changed:] != hidden[:, changed:]).any(dim=-1).all()


def test_every_target_position_sees_every_source_position() -> None:
    model = tiny_model().eval()
    source = torch.tensor([[9, 5, 12, 2]])
    for changed in range(source.size(1)):
        other = source.clone()
        other[0, changed] = 15
        assert (model(other, TARGET[1:2]) != model(source, TARGET[1:2])).any(dim=-1).all()


@both_forms
@pytest.mark.parametrize(("more_source", "more_target"), [(1, 0), (0, 1), (3, 4)])
def test_padding_changes_nothing(more_source: int, more_target: int, attend: AttentionFunction) -> None:
    model = tiny_model().eval()
    model.use_attention(attend)
    hidden = model(SOURCE, TARGET)
    padded = model(functional.pad(SOURCE, (0, more_source)), functional.pad(TARGET, (0, more_target)))
    real = TARGET != 0
    torch.testing.assert_close(padded[:, : TARGET.size(1)][real], hidden[real], atol=1e-12, rtol=0)


def test_a_batch_equals_its_sentences_alone_up_to_rounding() -> None:
    model = tiny_model(dtype=torch.float32).eval()
    hidden = model(SOURCE, TARGET)
    for row, target in enumerate(TARGET):
        length = int((target != 0).sum())
        alone = model(SOURCE[row : row + 1, : int((SOURCE[row] != 0).sum())], target[None, :length])
        torch.testing.assert_close(hidden[row : row + 1, :length], alone, atol=1e-5, rtol=0)


@both_forms
def test_nothing_but_padding_gives_finite_states_and_gradients(attend: AttentionFunction) -> None:
    model = tiny_model(dtype=torch.float32)
    model.use_attention(attend)
    nothing = torch.zeros(2, 4, dtype=torch.int64)
    hidden = model(nothing, nothing)
    hidden.square().sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# --- Gradients and dropout


def test_the_gradient_of_the_whole_model_is_the_slope_of_its_loss() -> None:
    sizes: dict[str, Any] = {"d_model": 4, "d_ff": 5, "num_heads": 2, "d_k": 3, "d_v": 2, "num_layers": 1}
    model = tiny_model(**sizes, source_vocab_size=9, target_vocab_size=9)
    source, target = torch.tensor([[5, 6, 2], [7, 2, 0]]), torch.tensor([[1, 8], [1, 5]])
    names = [name for name, _ in model.named_parameters()]

    def logits(*weights: Tensor) -> Tensor:
        hidden = functional_call(model, dict(zip(names, weights, strict=True)), (source, target))
        return functional.linear(hidden, weights[0]).log_softmax(dim=-1)

    assert names[0] == "embeddings.matrices.shared"
    parameters = tuple(parameter.detach().requires_grad_() for parameter in model.parameters())
    assert torch.autograd.gradcheck(logits, parameters, fast_mode=True)


def test_dropout_sits_after_each_sub_layer_and_on_both_sums_of_embeddings_and_positions() -> None:
    model = tiny_model(dropout=0.3, num_layers=3, dtype=torch.float32).train()
    dropouts = {n: m for n, m in model.named_modules() if isinstance(m, Dropout | nn.Dropout)}
    places = [name for name, module in dropouts.items() if not isinstance(module, Dropout) or module.rate]
    after_sublayers = [name for name, module in model.named_modules() if isinstance(module, AddAndNorm)]
    assert len(after_sublayers) == 3 * 2 + 3 * 3
    assert places == ["dropout", *(f"{name}.dropout" for name in after_sublayers)]

    calls: list[str] = []
    for name in places:
        model.get_submodule(name).register_forward_hook(lambda *_, name=name: calls.append(name))
    model(SOURCE, TARGET)
    assert sorted(calls) == sorted([*places, "dropout"])


def test_dropout_acts_in_training_only_and_by_the_generator() -> None:
    model = tiny_model(dropout=0.3, dtype=torch.float32)
    torch.manual_seed(1)
    first, second = model.train()(SOURCE, TARGET), model(SOURCE, TARGET)
    torch.manual_seed(1)
    assert torch.equal(model(SOURCE, TARGET), first)
    assert not torch.equal(second, first)
    undropped = tiny_model(dropout=0.0, dtype=torch.float32)
    assert torch.equal(model.eval()(SOURCE, TARGET), undropped.train()(SOURCE, TARGET))
