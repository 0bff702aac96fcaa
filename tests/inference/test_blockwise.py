"""Blockwise decoding writes what greedy search writes, in as many steps as the published algorithm takes."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels import require_kernels

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.generate import generate
from allyouneed.inference.native_engine import NativeEngine
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.speculation import MOST_SENTENCES, StudentProposer, _Sentence
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.model.transformer import Transformer
from allyouneed.native.library import FORMS
from allyouneed.symbols import END, NEVER_PRODUCED, START, UNKNOWN

VOCAB_SIZE = 61
VARIANTS: list[dict[str, Any]] = [
    {},
    {"autoregression": "ssru"},
    {"positions": "learned", "max_positions": 40, "norm": "pre"},
    {"positions": "rotary", "decoder_start": "zeros"},
    {"positions": "alibi", "output_bias": True},
    {"neighbourhood": 4},
    {"source_end": False, "positions": "relative"},
]


def built(seed: int = 1, **settings: Any) -> Transformer:
    """A model with heads whose proposals are right now and then, as they do little."""
    torch.manual_seed(seed)
    sizes = {"d_model": 24, "d_ff": 40, "num_layers": 2, "num_heads": 2, "block": 4, **settings}
    model = Transformer(
        ModelConfig(source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, **sizes)
    ).eval()
    with torch.no_grad():
        model.embeddings.matrix("output").mul_(3)
    return model


def sources(num: int) -> list[list[int]]:
    draw = random.Random(num)
    return [
        [draw.randrange(UNKNOWN, VOCAB_SIZE) for _ in range(draw.choice([1, 2, 5, 9, 17]))]
        for _ in range(num)
    ]


def outputs(engine: Engine, texts: Sequence[Sequence[int]], size: int = 64, **search: Any) -> list[Any]:
    """The outputs with the bits of their scores."""
    prefixes = search.pop("prefixes", [()] * len(texts))
    config = SearchConfig(max_extra_tokens=12, **search)
    found = generate(engine, texts, config, prefixes=prefixes, batching=Batching(size=size))
    return [(best.ids, best.score.hex(), best.token_log_probs) for best, *_ in found]


def ids(found: list[Any]) -> list[list[int]]:
    return [each[0] for each in found]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("settings", VARIANTS[:5], ids=str)
def test_the_kernels_write_the_same_bits_as_in_greedy_search_in_any_batch(
    settings: dict[str, Any], form: str
) -> None:
    require_kernels()
    engine, texts = NativeEngine(built(**settings), form), sources(12)
    greedy = outputs(engine, texts, beam_size=1)
    for size in (1, 3, MOST_SENTENCES + 1, 64):
        assert outputs(engine, texts, size, blockwise=True) == greedy
    counts = engine.block_counts
    assert counts.num_blocks < counts.num_tokens
    assert counts.num_one_by_one
    looser = outputs(engine, texts, 1, blockwise=True, accept_top=3)
    assert all(outputs(engine, texts, size, blockwise=True, accept_top=3) == looser for size in (3, 64))


@pytest.mark.parametrize("settings", [each for each in VARIANTS if "autoregression" not in each], ids=str)
def test_pytorch_writes_the_same_as_in_greedy_search(settings: dict[str, Any]) -> None:
    engine, texts = TorchEngine(built(**settings).double()), sources(10)
    greedy = ids(outputs(engine, texts, beam_size=1))
    assert all(ids(outputs(engine, texts, size, blockwise=True)) == greedy for size in (1, 3, 64))
    assert engine.block_counts.num_blocks < engine.block_counts.num_tokens


def plain_blockwise(model: Transformer, source: Sequence[int], config: SearchConfig) -> tuple[list[int], int]:
    """Stern et al. 2018, sections 3 to 5: an output, and how often the model was invoked.

    A block is the token of p_1, and the proposals of p_2 .. p_k; each is verified given those before it.
    """

    def states(written: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = model(torch.tensor([[*source, END]]), torch.tensor([[START, *written]]))[0]
        return hidden

    def ranked(state: torch.Tensor) -> list[int]:
        order: list[int] = model.project(state).argsort(descending=True).tolist()
        return [token for token in order if token not in NEVER_PRODUCED]

    most = len(source) + 1 + config.max_extra_tokens
    written, num_invoked, state = [], 1, states([])[0]
    while True:
        written.append(ranked(state)[0])
        if written[-1] == END or len(written) == most:
            return [token for token in written if token != END], num_invoked
        proposed = [ranked(each)[0] for each in model.block_heads(state)]
        seen = states([*written, *proposed])[len(written) :]
        num_invoked, state, accepted = num_invoked + 1, seen[0], 1
        for token in proposed:
            verified = ranked(state)
            near = abs(token - verified[0]) <= config.accept_distance
            if not (near or token in verified[: config.accept_top] or accepted < config.min_block):
                break
            written.append(token)
            if token == END or len(written) == most:
                return [token for token in written if token != END], num_invoked
            state, accepted = seen[accepted], accepted + 1


CRITERIA: list[dict[str, Any]] = [{}, {"accept_top": 3}, {"accept_distance": 6}, {"min_block": 2}]


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_outputs_and_steps_are_those_of_the_published_algorithm(criterion: dict[str, Any]) -> None:
    model, texts = built().double(), sources(8)
    engine, config = TorchEngine(model), SearchConfig(blockwise=True, max_extra_tokens=12, **criterion)
    with torch.no_grad():
        expected = [plain_blockwise(model, text, config) for text in texts]
    for size in (1, 3, 64):  # the looser criteria, too, in any batch
        assert ids(outputs(engine, texts, size, blockwise=True, **criterion)) == ids(expected)
    alone = TorchEngine(model)
    outputs(alone, texts, 1, blockwise=True, **criterion)
    assert alone.block_counts.num_blocks == sum(num for _, num in expected)


@pytest.mark.parametrize(
    "search",
    [
        {"prefixes": [[7, 9, 11]] * 8},
        {"no_repeat_ngram_size": 2, "min_length": 4},
        {"repetition_penalty": 1.5},
        {"sampling": True, "temperature": 0.7},
    ],
    ids=str,
)
def test_restrictions_and_samples_are_those_of_tokens_one_by_one(search: dict[str, Any]) -> None:
    require_kernels()
    engine, texts = NativeEngine(built()), sources(8)
    one_by_one = {} if "sampling" in search else {"beam_size": 1}
    assert outputs(engine, texts, 1, blockwise=True, **search) == outputs(
        engine, texts, **one_by_one, **search
    )


@pytest.mark.parametrize("criterion", CRITERIA[1:], ids=str)
def test_looser_criteria_do_not_depend_on_the_prefixes_of_other_sentences(criterion: dict[str, Any]) -> None:
    require_kernels()
    engine, texts = NativeEngine(built()), sources(8)
    free = outputs(engine, texts, 1, blockwise=True, **criterion)
    prefixes = [[7, 9, 11, 8, 10] if place % 4 == 0 else [] for place in range(8)]
    found = [outputs(engine, texts, size, blockwise=True, prefixes=prefixes, **criterion) for size in (1, 64)]
    assert found[0] == found[1]
    for place, prefix in enumerate(prefixes):
        assert found[0][place][0][: len(prefix)] == prefix
        assert prefix or found[0][place] == free[place]


@pytest.mark.parametrize(
    "search",
    [{"min_length": 2}, {"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.5}, {"sampling": True}],
    ids=str,
)
def test_looser_criteria_are_refused_where_they_have_no_effect(search: dict[str, Any]) -> None:
    [name], engine = search, TorchEngine(built())
    message = f"^accept_top, min_block: has no effect beside {name}; leave it out$"
    with pytest.raises(UsageError, match=message):
        outputs(engine, sources(1), blockwise=True, accept_top=2, min_block=3, **search)


def test_a_student_that_could_not_read_reads_later_all_that_is_new() -> None:
    """A sentence at the last position of the student keeps the others of its batch from being read."""

    class Remembering:
        most_positions = 4

        def __init__(self) -> None:
            self.known = [list[int](), list[int]()]

        def admit(self, sources: object) -> None: ...

        def read(self, places: Sequence[int], starts: Sequence[int], blocks: Sequence[list[int]]) -> Any:
            for place, start, block in zip(places, starts, blocks, strict=True):
                assert start <= len(self.known[place])
                self.known[place][start:] = block
            return np.zeros((sum(map(len, blocks)), 1))

        def best(self, hidden: Any) -> Any:
            return np.full(len(hidden), 9)

    reader: Any = Remembering()
    student = StudentProposer(reader, 1)
    student.admit([[5], [6]])
    long, short = _Sentence([1, 2, 3, 4, 5]), _Sentence([1, 2])
    assert student.propose([0, 1], [long, short]) == [[], []]
    short.written.append(3)
    assert student.propose([1], [short]) == [[9]]
    assert reader.known[1] == short.written


@pytest.mark.parametrize("make", [NativeEngine, TorchEngine])
def test_a_student_proposes_and_one_that_is_the_model_itself_is_always_right(make: Any) -> None:
    require_kernels()
    engine, texts = make(built(block=1)), sources(10)
    greedy = ids(outputs(engine, texts, beam_size=1))
    engine.student = make(built(2, num_layers=1, block=1))
    assert all(ids(outputs(engine, texts, size, blockwise=True)) == greedy for size in (1, 4, 64))
    engine.block_counts.clear()
    engine.student = make(built(block=1))
    assert ids(outputs(engine, texts, 1, blockwise=True, block_size=3)) == greedy
    lengths = [len(written) + 1 for written in greedy]
    assert engine.block_counts.num_blocks <= sum(-(-length // 3) for length in lengths)


def test_a_recurrent_student_proposes_on_the_kernels() -> None:
    require_kernels()
    engine, texts = NativeEngine(built(block=1)), sources(10)
    engine.student = NativeEngine(built(3, num_layers=1, block=1, autoregression="ssru"), "int8")
    assert outputs(engine, texts, 2, blockwise=True) == outputs(engine, texts, beam_size=1)


def test_models_without_proposals_or_blocks_are_refused_in_a_line() -> None:
    engine = TorchEngine(built(block=1))
    for search, engines, message in (
        ({}, engine, "no heads"),
        ({}, Ensemble([engine, engine]), "ensemble"),
        ({"block_size": 9}, TorchEngine(built()), "block_size 9: .* 4"),
        ({}, TorchEngine(built(autoregression="ssru")), "recurrent"),
    ):
        with pytest.raises(UsageError, match=message):
            outputs(engines, sources(1), blockwise=True, **search)
