"""Search with rules, beside the best of all outputs that keep them."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.generate import generate
from allyouneed.inference.search import BeamSearch
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.symbols import END, START, UNKNOWN

VOCAB_SIZE, MAX_LENGTH = 7, 4
SOURCE = [5, 4, END]
TOKENS = range(UNKNOWN, VOCAB_SIZE)
OUTPUTS = [list(ids) for n in range(MAX_LENGTH + 1) for ids in itertools.product(TOKENS, repeat=n)]
"""All that can be written; those of the maximum length have no end symbol."""


class Alternating:
    """Outputs in which no token follows itself, and the last is not the first token of the source."""

    def __init__(self) -> None:
        self.table = np.ones((VOCAB_SIZE * VOCAB_SIZE, VOCAB_SIZE), np.bool_)
        for first, last in itertools.product(range(VOCAB_SIZE), repeat=2):
            self.table[first * VOCAB_SIZE + last, last] = False
            self.table[first * VOCAB_SIZE + last, END] = first != last

    def start(self, sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        return np.array([[source[0], START] for source in sources])

    def classify(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        classes: NDArray[np.int64] = states[..., 0] * VOCAB_SIZE + states[..., 1]
        return classes

    def advance(self, states: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack([states[..., 0], tokens], axis=-1)


@pytest.fixture(scope="module")
def log_probs(tiny_model: Any) -> dict[tuple[int, ...], list[float]]:
    """The log-probability of each token of every output, the end symbol's last where there is one."""
    model = tiny_model(3, vocab_size=VOCAB_SIZE).eval()

    @torch.no_grad()
    def of(ids: list[int]) -> list[float]:
        written = [*ids, END][:MAX_LENGTH]
        hidden = model(torch.tensor([SOURCE]), torch.tensor([[START, *written[:-1]]]))[0]
        rows = model.project(hidden).double().log_softmax(-1)
        return [float(row[token]) for row, token in zip(rows, written, strict=True)]

    return {tuple(ids): of(ids) for ids in OUTPUTS}


def found(
    tiny_model: Any, prefix: Sequence[int] = (), constraint: Any = None, **rules: Any
) -> list[Hypothesis]:
    config = SearchConfig(beam_size=81, length_normalization="none", **rules)
    engine = TorchEngine(tiny_model(3, vocab_size=VOCAB_SIZE).eval())
    search = BeamSearch(engine.start(81), config, n_best=81, constraint=constraint)
    with torch.no_grad():
        search.admit([SearchRequest(0, SOURCE, MAX_LENGTH, prefix)])
        while not (left := search.step()):
            pass
    return left[0][1]


def assert_best(hypotheses: list[Hypothesis], scores: dict[tuple[int, ...], float]) -> None:
    # Outputs of the maximum length have no end symbol, and come after those that have one.
    expected = sorted(scores, key=lambda ids: (len(ids) == MAX_LENGTH, -scores[ids]))[:81]
    assert [tuple(hypothesis.ids) for hypothesis in hypotheses] == expected
    assert [h.score for h in hypotheses] == pytest.approx([scores[ids] for ids in expected], abs=1e-5)


def ngrams(ids: Sequence[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(ids[place : place + n]) for place in range(len(ids) - n + 1)]


RULES: dict[str, tuple[dict[str, Any], Callable[[list[int]], bool]]] = {
    "min_length": ({"min_length": 3}, lambda ids: len(ids) >= 2),
    "prefix": ({"prefix": [6, 4]}, lambda ids: ids[:2] == [6, 4]),
    "prefix that repeats": (
        {"prefix": [6, 6], "no_repeat_ngram_size": 1},
        lambda ids: ids[:2] == [6, 6] and len(set(ids)) == len(ids) - 1,
    ),
    "no token twice": ({"no_repeat_ngram_size": 1}, lambda ids: len(set(ids)) == len(ids)),
    "no bigram twice": (
        {"no_repeat_ngram_size": 2},
        lambda ids: len(set(ngrams(ids, 2))) == len(ngrams(ids, 2)),
    ),
    "constraint": (
        {"constraint": Alternating()},
        lambda ids: (
            all(a != b for a, b in itertools.pairwise(ids))
            and (len(ids) == MAX_LENGTH or ids[-1:] != SOURCE[:1])
        ),
    ),
    "constraint and min_length": (
        {"constraint": Alternating(), "min_length": 4},
        lambda ids: (
            all(a != b for a, b in itertools.pairwise(ids))
            and (len(ids) == MAX_LENGTH or (len(ids) == 3 and ids[-1:] != SOURCE[:1]))
        ),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_large_beam_finds_the_best_outputs_that_keep_the_rule(
    tiny_model: Any, log_probs: dict[tuple[int, ...], list[float]], rule: str
) -> None:
    settings, keeps = RULES[rule]
    allowed = {tuple(ids): sum(log_probs[tuple(ids)]) for ids in OUTPUTS if keeps(ids)}
    assert len(allowed) > 1
    assert_best(found(tiny_model, **settings), allowed)


def test_a_penalty_multiplies_the_log_probability_of_tokens_that_were_written(
    tiny_model: Any, log_probs: dict[tuple[int, ...], list[float]]
) -> None:
    scores = {}
    for ids in OUTPUTS:
        factors = [1.5 if token in ids[:place] else 1.0 for place, token in enumerate([*ids, END])]
        of_tokens = log_probs[tuple(ids)]
        scores[tuple(ids)] = sum(a * b for a, b in zip(factors, of_tokens, strict=False))
    assert_best(found(tiny_model, repetition_penalty=1.5), scores)


def best_of(
    engine: TorchEngine, sentences: Sequence[SearchRequest], config: SearchConfig, size: int
) -> list[list[int]]:
    """The best output of each, `size` sentences being searched at once."""
    search, waiting = BeamSearch(engine.start(config.beam_size), config), list(sentences)
    best: dict[int, list[int]] = {}
    while waiting or search.sentences:
        search.admit([waiting.pop() for _ in range(min(len(waiting), size - len(search.sentences)))])
        best.update({sentence.key: found[0].ids for sentence, found in search.step()})
    return [best[sentence.key] for sentence in sentences]


def test_rules_hold_for_each_sentence_of_a_batch_that_changes(tiny_model: Any) -> None:
    """Prefixes of different lengths, in a batch whose sentences join and leave, as each alone."""
    draw = random.Random(3)
    engine = TorchEngine(tiny_model(5, vocab_size=11).eval())
    config = SearchConfig(beam_size=3, min_length=4, no_repeat_ngram_size=2)
    sentences = [
        SearchRequest(
            number,
            [*(draw.randrange(UNKNOWN, 11) for _ in range(draw.randrange(1, 9))), END],
            draw.randrange(6, 14),
            [draw.randrange(UNKNOWN, 11) for _ in range(draw.randrange(5))],
        )
        for number in range(30)
    ]
    with torch.no_grad():
        alone, together = (best_of(engine, sentences, config, size) for size in (1, 7))
    assert together == alone
    assert all(
        ids[: len(sentence.prefix)] == sentence.prefix for ids, sentence in zip(alone, sentences, strict=True)
    )


def test_where_nothing_may_be_written_the_output_is_empty_and_impossible(tiny_model: Any) -> None:
    class Nothing(Alternating):
        def __init__(self) -> None:
            super().__init__()
            self.table[:] = False

    engine = TorchEngine(tiny_model(vocab_size=VOCAB_SIZE))
    for sampling in (False, True):
        config = SearchConfig(sampling=sampling)
        [[hypothesis]] = generate(engine, [[5, 4]], config, constraint=Nothing())
        assert hypothesis == Hypothesis([], float("-inf"))


def test_samples_keep_the_rules_too(tiny_model: Any) -> None:
    engine = TorchEngine(tiny_model(3, vocab_size=VOCAB_SIZE))
    config = SearchConfig(sampling=True, max_length=MAX_LENGTH, min_length=3)
    [drawn] = generate(engine, [SOURCE[:-1]], config, n_best=200, constraint=Alternating(), prefixes=[[6]])
    for ids in (hypothesis.ids for hypothesis in drawn):
        assert ids[0] == 6
        assert len(ids) >= 2
        assert all(a != b for a, b in itertools.pairwise(ids))
        assert len(ids) == MAX_LENGTH or ids[-1] != SOURCE[0]
