"""Every registered variant gives one answer: alone or in a batch, packed or padded, cached or not.

Variants are read off the settings' own lists, so that a new one is tested without being named here.
"""

import copy
from typing import Any, get_args

import pytest
import torch
from tests.inference.conftest import next_logits
from torch import Tensor

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.attention import fused_attention
from allyouneed.model.masks import pack, padding_mask
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import END, PADDING, START

_CHOICES = "attention", "positions", "norm", "feed_forward", "activation", "decoder_start", "autoregression"
VARIANTS: list[dict[str, Any]] = [
    {name: value} for name in _CHOICES for value in get_args(ModelConfig.model_fields[name].annotation)
]
VARIANTS += [
    {**variant, "neighbourhood": 6} for variant in VARIANTS if variant.keys() & {"attention", "positions"}
]
VARIANTS += [{"neighbourhood": 6, "neighbourhood_in": side} for side in ("encoder", "decoder")]
VARIANTS += [
    {"autoregression": "ssru", "neighbourhood": 6, "neighbourhood_in": "encoder"},
    {"attention": "additive", "positions": "relative"},
    {"attention": "unscaled", "positions": "rotary"},
]
VARIANTS += [
    {"source_end": False},
    {"num_decoder_layers": 1, "output_bias": True, "scaled_embeddings": False},
]
_SIZES: dict[str, Any] = {
    **{"source_vocab_size": 17, "target_vocab_size": 17, "d_model": 24, "d_ff": 32, "num_layers": 2},
    **{"num_heads": 3, "max_positions": 90, "max_distance": 4, "parameter_pairs": 9, "num_experts": 4},
}
_TOLERANCE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-8}
_SOURCES = [
    [5, 9, 13, 6, 7, 16, 12, 8, 8, 5, 11, 10, 4, 9, END],
    [6, END],
    [7, 7, 14, 5, END],
    [14 - n % 9 for n in range(70)] + [END],
]
_TARGETS = [[8, 5, 6], [9, 9, 4, 7, 10, 11, 12, 5, 5, 6, 16], [7], [4 + n % 11 for n in range(66)]]


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: " ".join(map(str, variant.values())))
def model(request: pytest.FixtureRequest) -> Transformer:
    torch.manual_seed(0)
    built = Transformer(ModelConfig(**_SIZES, **request.param)).double().eval()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if name == "embeddings.bias":
                parameter.normal_()
            elif name.startswith("embeddings."):
                parameter.mul_(3)
    return built


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: " ".join(map(str, variant.values())))
def test_initialisation_draws_every_weight(variant: dict[str, Any]) -> None:
    torch.use_deterministic_algorithms(True)  # new memory then holds NaN
    try:
        model = Transformer(ModelConfig(**_SIZES, **variant))
    finally:
        torch.use_deterministic_algorithms(False)
    undrawn = [name for name, weight in model.named_parameters() if weight.isnan().any()]
    assert not undrawn, "model/initialisation.py must draw them"


def batch_of(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])


def states(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    """Hidden states of each target's tokens."""
    read = batch_of([[START, *target] for target in targets])
    hidden = model(batch_of(sources), read)
    return [row[ids != PADDING] for row, ids in zip(hidden, read, strict=True)]


@pytest.fixture(scope="module")
def together(model: Transformer) -> list[Tensor]:
    """The states of all sentences in a batch."""
    with torch.no_grad():
        return states(model, _SOURCES, _TARGETS)


@torch.no_grad()
def test_a_sentence_has_the_same_states_alone_and_in_a_batch(
    model: Transformer, together: list[Tensor]
) -> None:
    for source, target, expected in zip(_SOURCES, _TARGETS, together, strict=True):
        torch.testing.assert_close(states(model, [source], [target])[0], expected, **_TOLERANCE)


@torch.no_grad()
def test_fused_forms_give_the_same_states(model: Transformer, together: list[Tensor]) -> None:
    fused = copy.deepcopy(model)
    fused.use_attention(fused_attention)
    for found, wanted in zip(states(fused, _SOURCES, _TARGETS), together, strict=True):
        torch.testing.assert_close(found, wanted, **_TOLERANCE)


@torch.no_grad()
def test_packed_sentences_have_the_states_of_padded_ones(model: Transformer, together: list[Tensor]) -> None:
    expected = torch.cat(together)
    device = torch.device("cpu")
    read = batch_of([[START, *target] for target in _TARGETS])
    packed = model(pack(model.read_of(batch_of(_SOURCES)), device), pack(read, device))
    torch.testing.assert_close(packed[0], expected, **_TOLERANCE)


@torch.no_grad()
def test_cached_steps_give_the_states_of_the_whole_target(model: Transformer) -> None:
    decoding = TorchEngine(model).start(beam_size=1)
    decoding.admit(_SOURCES[:2])
    target = _TARGETS[3]
    logits = [next_logits(decoding, [[START], [START]])[:, 0]]
    for number, token in enumerate(target):
        if number == 3:  # a sentence that joins has other positions than those that are there
            decoding.admit(_SOURCES[2:3])
        others = [] if number < 3 else [[START if number == 3 else target[number - 4]]]
        logits.append(next_logits(decoding, [[token], [token], *others])[:, 0])
    for row, source in enumerate(_SOURCES[:3]):
        ids = model.read_of(torch.tensor([source]))
        memory = model.encode(ids)
        written = torch.tensor([[START, *target]])
        wanted = model.project(model.decode(written, memory, padding_mask(ids)))[0]
        found = torch.stack([step[row] for step in logits if row < len(step)])
        torch.testing.assert_close(found, wanted[: len(found)], **_TOLERANCE)


@torch.no_grad()
def test_the_score_of_search_is_that_of_scoring(model: Transformer) -> None:
    config = SearchConfig(beam_size=3, length_normalization="none", max_extra_tokens=12)
    sources = [source[:-1] for source in _SOURCES]
    engine = TorchEngine(model)
    for source, (best, *_) in zip(sources, generate(engine, sources, config), strict=True):
        written = [*best.ids, END][: len(best.token_log_probs)]  # without the end if cut at the maximum
        log_probs = engine.token_log_probs([[*source, END]], [written]).tolist()
        assert best.token_log_probs == pytest.approx(log_probs, abs=1e-5)
        assert best.score == pytest.approx(sum(log_probs), abs=1e-4)  # a sum of numbers in float32


@torch.no_grad()
def test_sources_without_an_end_symbol_do_not_depend_on_it() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**_SIZES, source_end=False)).double().eval()
    without = Transformer(ModelConfig(**_SIZES)).double().eval()
    without.load_state_dict(model.state_dict())
    sources = [[*source[:-1], PADDING] for source in _SOURCES]
    expected = states(without, sources, _TARGETS)
    torch.testing.assert_close(states(model, _SOURCES, _TARGETS), expected, **_TOLERANCE)
    assert not torch.equal(states(without, _SOURCES, _TARGETS)[0], expected[0])
    [empty] = states(model, [[END]], _TARGETS[:1])
    torch.testing.assert_close(empty, states(without, [[END]], _TARGETS[:1])[0], **_TOLERANCE)
