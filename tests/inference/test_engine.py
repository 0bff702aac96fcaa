import functools
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.inference.conftest import KINDS, next_logits
from tests.kernels import require_kernels
from torch.nn.utils.rnn import pad_sequence

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference import native_layers
from allyouneed.inference.engine import Engine
from allyouneed.inference.engine_choice import build_engine, unknown_part
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.dropout import evaluation_mode
from allyouneed.model.masks import padding_mask
from allyouneed.model.transformer import Transformer
from allyouneed.native import isa
from allyouneed.symbols import END, START

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "d_k is not d_v": {"d_k": 5, "d_v": 3},
    "learned positions": {"positions": "learned", "max_positions": 50},
    "untied, without bias": {"tied_embeddings": "none", "attention_bias": False},
    "released in 2017": {"positions": "concatenated", "decoder_start": "zeros", "target_space": True},
    "pre-norm": {"norm": "pre"},
    "of fairseq": {"norm": "pre", "positions": "fairseq", "decoder_start": "end"},
    "rotary": {"positions": "rotary"},
    "ALiBi": {"positions": "alibi", "target_space": True},
    "GELU": {"activation": "gelu"},
    "Swish": {"activation": "swish"},
    "guided alignment, pre-norm": {"norm": "pre", "guided_alignment": 0.5},
    "recurrent units": {"autoregression": "ssru", "num_decoder_layers": 3},
    "pre-norm recurrent units": {"autoregression": "ssru", "norm": "pre", "decoder_start": "zeros"},
    "sources without end symbol": {"source_end": False},
    "bias of the logits": {"output_bias": True, "scaled_embeddings": False, "num_decoder_layers": 1},
}
"""Of models that both engines know."""

OTHERS: dict[str, dict[str, Any]] = {
    "clipped offsets": {"positions": "relative"},
    "unscaled": {"attention": "unscaled"},
    "additive": {"attention": "additive"},
    "over parameters": {"feed_forward": "parameters", "parameter_heads": 2, "parameter_pairs": 7},
    "neighbourhood": {"neighbourhood": 9},
    "neighbourhood of more than a block of positions": {"neighbourhood": 70},
}
"""Of models that PyTorch alone decodes."""


@pytest.fixture(params=["PyTorch", *KINDS])
def engine_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Either engine, the native one with the kernels of every kind of instruction set."""
    if request.param == "PyTorch":
        return TorchEngine
    monkeypatch.setenv(isa.VARIABLE, request.param)
    require_kernels()
    return NativeEngine


@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_steps_equal_the_whole_prefix_decoded_anew(
    tiny_model: Any, variant: str, engine_of: Any
) -> None:
    model, steps = scenario(tiny_model, variant)
    check_cached_steps(engine_of(model), steps)


@pytest.mark.parametrize("variant", OTHERS)
def test_a_variant_is_decoded_by_its_own_modules(tiny_model: Any, variant: str) -> None:
    model, steps = scenario(tiny_model, variant)
    assert type(build_engine(model)) is TorchEngine
    check_cached_steps(build_engine(model), steps)
    with pytest.raises(UsageError, match="do not support a part of this model"):
        build_engine(model, "int8")


def test_dropout_and_what_the_native_engine_knows_do_not_change_the_engine(tiny_model: Any) -> None:
    settings = {"attention_dropout": 0.1, "feed_forward_dropout": 0.1, "symbol_dropout": 0.1}
    for variant in ({}, settings, *VARIANTS.values()):
        assert unknown_part(tiny_model(**variant)) is None


def test_an_activation_that_the_kernels_lack_is_computed_by_pytorch(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(activation="gelu")
    monkeypatch.setitem(native_layers._KNOWN, "activation", {"relu"})
    assert type(build_engine(model)) is TorchEngine
    with pytest.raises(UsageError, match=r"this model \(activation = gelu\); take float32"):
        build_engine(model, "int8")
    assert unknown_part(tiny_model(activation="relu")) is None


def test_a_module_of_an_unknown_kind_is_not_known(tiny_model: Any) -> None:
    model = tiny_model()
    model.encoder[0].feed_forward.inner = torch.nn.Sequential(model.encoder[0].feed_forward.inner)
    assert unknown_part(model) == "Sequential"


NUM_BEAMS = 3


class Step(NamedTuple):
    """What a decoding is told to do, and the logits that it should find."""

    admitted: list[list[int]]
    """Sources that come before the step."""
    tokens: list[list[int]]
    """Of the sources and beams."""
    expected: torch.Tensor
    """The logits after every whole prefix, (sources, beams, words)."""
    parents: list[list[int]]
    kept: list[int] | None
    """Sources that stay after the step, if not all do."""


def check_cached_steps(engine: Engine, steps: list[Step]) -> None:
    with torch.no_grad():
        decoding = engine.start(NUM_BEAMS)
        for step in steps:
            if step.admitted:
                decoding.admit(step.admitted)
            logits = next_logits(decoding, step.tokens)
            torch.testing.assert_close(logits, step.expected, rtol=1e-5, atol=2e-5)
            decoding.reorder(np.array(step.parents))
            if step.kept is not None:
                decoding.keep(np.array(step.kept))


@functools.cache
def scenario(tiny_model: Any, variant: str) -> tuple[Transformer, list[Step]]:
    """A model, and 40 steps in which sources come and go, with logits that every engine should find."""
    model = tiny_model(**(VARIANTS | OTHERS)[variant]).eval()
    draw = random.Random(1)
    admitted = [[7, 5, 9, 4, 6, END], [8, END], [4, 4, 10, END], [8, END]]
    sources: list[list[int]] = []
    prefixes: list[list[list[int]]] = []
    steps = []
    for position in range(40):
        sources = sources + admitted
        prefixes += [[[] for _ in range(NUM_BEAMS)] for _ in admitted]
        tokens = [[draw.randrange(11) if prefix else START for prefix in beams] for beams in prefixes]
        prefixes = [
            [[*prefix, token] for prefix, token in zip(beams, new, strict=True)]
            for beams, new in zip(prefixes, tokens, strict=True)
        ]
        parents = [[draw.randrange(NUM_BEAMS) for _ in beams] for beams in prefixes]
        kept = {10: [2, 0, 3, 2], 35: [1, 2, 1]}.get(position)
        steps.append(Step(admitted, tokens, decoded_anew(model, sources, prefixes), parents, kept))
        prefixes = [[beams[b] for b in new] for beams, new in zip(prefixes, parents, strict=True)]
        if kept is not None:
            prefixes, sources = [prefixes[s] for s in kept], [sources[s] for s in kept]
        admitted = [[6, 6, 5, END], [9, 10, 4, 5, 7, 8, END]] if position in (11, 20, 36) else []
    return model, steps


@torch.no_grad()
def decoded_anew(
    model: Transformer, sources: list[list[int]], prefixes: list[list[list[int]]]
) -> torch.Tensor:
    """The logits after every whole prefix, (sources, beams, words)."""
    beams = [torch.tensor(prefix) for each in prefixes for prefix in each]
    padded = model.read_of(pad_sequence([torch.tensor(source) for source in sources], batch_first=True))
    memory, mask = (
        each.repeat_interleave(NUM_BEAMS, 0) for each in (model.encode(padded), padding_mask(padded))
    )
    hidden = model.decode(pad_sequence(beams, batch_first=True), memory, mask)
    ends = hidden[torch.arange(len(beams)), [len(prefix) - 1 for prefix in beams]]
    logits: torch.Tensor = model.project(ends).unflatten(0, (len(sources), NUM_BEAMS))
    return logits


@pytest.mark.parametrize(("neighbourhood", "most"), [(None, 96), (8, 32), (60, 64)])
def test_the_cache_of_a_restricted_model_is_bounded(
    tiny_model: Any, neighbourhood: int | None, most: int
) -> None:
    model = tiny_model(neighbourhood=neighbourhood).eval()
    num_positions: list[int] = []
    model.decoder[1].self_attention.plain.register_forward_hook(
        lambda _, given, found: num_positions.append(given[1].size(2) // 3)
    )
    with torch.no_grad():
        decoding = TorchEngine(model).start(3)
        decoding.admit([[5, 6, END], [7, END]])
        for position in range(90):
            next_logits(decoding, np.full((2, 3), 4 if position else START))
            decoding.reorder(np.array([[0, 0, 1], [2, 1, 0]]))
    assert num_positions[0] == 32
    assert max(num_positions) == num_positions[-1] == most


def test_restricted_models_answer_alike_in_any_batch_and_order(tiny_model: Any) -> None:
    engine, draw = TorchEngine(tiny_model(neighbourhood=6).eval()), random.Random(2)
    texts = [[draw.randrange(4, 11) for _ in range(draw.randint(1, 10))] for _ in range(5)]
    config = SearchConfig(beam_size=2, max_extra_tokens=15, min_length=12)
    found = [
        [
            [(h.ids, pytest.approx(h.score, abs=1e-4)) for h in hypotheses]
            for hypotheses in generate(engine, texts, config, n_best=2, batching=Batching(size=size))
        ]
        for size in (1, 2, 5)
    ]
    assert found[0] == found[1] == found[2]
    assert max(len(ids) for hypotheses in found[0] for ids, _ in hypotheses) > 10


def test_evaluation_mode_is_left_as_it_was_found(tiny_model: Any) -> None:
    model = tiny_model()
    with evaluation_mode(model.modules()):
        assert not model.encoder[0].training
        assert not torch.is_grad_enabled()
    assert model.encoder[0].training
    assert torch.is_grad_enabled()


def test_the_engine_shares_the_model_s_weights(tiny_model: Any) -> None:
    model = tiny_model().eval()
    engine = TorchEngine(model)
    source = [[5, 6, END]]
    with torch.no_grad():
        decodings = engine.start(1), engine.start(1)
        decodings[0].admit(source)
        before = next_logits(decodings[0], [[START]])
        model.embeddings.matrix("output").mul_(2)
        decodings[1].admit(source)
        after = next_logits(decodings[1], [[START]])
    assert not torch.equal(before, after)
