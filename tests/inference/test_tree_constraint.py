"""What the constraint lets through is exactly the trees over the words: all of them, and in search."""

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from allyouneed.config import SearchConfig
from allyouneed.data.linearisation import ClosingBrackets, Tags, TreeVocabulary, build_tree
from allyouneed.inference.engine import Engine
from allyouneed.inference.generate import generate
from allyouneed.inference.restrictions import Constraint
from allyouneed.inference.tree_constraint import TreeConstraint
from allyouneed.symbols import END, UNKNOWN

if TYPE_CHECKING:
    from tests.inference.conftest import TinyModel

MODES: list[tuple[Tags, ClosingBrackets]] = [
    (tags, closing) for tags in ("normalised", "predicted", "endings") for closing in ("labelled", "plain")
]
TREES = ["(S (NP (NN a)) (VP (VB b) (NP (NN c))))"]


def words_of(source: Sequence[int]) -> list[str]:
    """In these tests every id is a word: a letter, so that many words have the same ending as others."""
    return ["abc"[token % 3] for token in source[:-1]]


def allowed(constraint: Constraint, ids: list[int], source: list[int]) -> list[int]:
    states = constraint.start([source])[:, None]
    for token in ids:
        states = constraint.advance(states, np.array([[token]]))
    return constraint.table[constraint.classify(states)[0, 0]].nonzero()[0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("tags", "closing"), MODES)
@pytest.mark.parametrize("words", [1, 2, 3])
def test_it_allows_all_trees_that_fit_and_nothing_else(
    tags: Tags, closing: ClosingBrackets, words: int
) -> None:
    vocabulary = TreeVocabulary.learn(["(S (NP (NN a)))"], tags, closing)
    source = [*range(5, 5 + words), END]
    constraint = TreeConstraint(vocabulary, words_of, SearchConfig(max_extra_tokens=4))
    longest = len(source) + 4  # the end symbol included
    found, waiting = set(), [[]]  # type: ignore[var-annotated]
    while waiting:
        ids = waiting.pop()
        choices = allowed(constraint, ids, source)
        assert choices, "a hypothesis that cannot go on"
        found |= {tuple(ids)} if choices == [END] else set()
        waiting += [[*ids, token] for token in choices if token != END]
    brackets = [symbol for symbol in vocabulary.symbols[UNKNOWN + 1 :] if symbol[0] in "()"]
    expected = set()
    for length in range(longest):
        for symbols in product([*brackets, "word"], repeat=length):
            if build_tree(symbols, "abc"[:words]).well_formed:
                symbols_of_words = {
                    "normalised": iter(["XX"] * words),
                    "predicted": iter(["NN"] * words),
                    "endings": iter(words_of(source)),
                }[tags]
                written = [next(symbols_of_words) if symbol == "word" else symbol for symbol in symbols]
                expected.add(tuple(map(vocabulary.symbols.index, written)))
    assert found == expected
    assert found


@pytest.mark.parametrize(("tags", "closing"), MODES)
@pytest.mark.parametrize("settings", [{}, {"sampling": True}, {"beam_size": 1, "max_extra_tokens": 2}])
def test_every_output_of_a_random_model_is_a_tree_over_the_words(
    tiny_model: "TinyModel", tags: Tags, closing: ClosingBrackets, settings: dict[str, object]
) -> None:
    vocabulary = TreeVocabulary.learn(TREES, tags, closing)
    engine = Engine(tiny_model(1, vocab_size=vocabulary.vocab_size))
    draw = Random(1)
    sources = [draw.choices(range(5, vocabulary.vocab_size), k=draw.randint(1, 12)) for _ in range(20)]
    config = SearchConfig(beam_size=3, max_extra_tokens=20).replace(**settings)
    constraint = TreeConstraint(vocabulary, words_of, config)
    assert isinstance(constraint.table, np.ndarray)
    outputs = list(generate(engine, sources, config, n_best=1, constraint=constraint))
    for source, hypotheses in zip(sources, outputs, strict=True):
        for hypothesis in hypotheses:
            words = words_of([*source, END])
            if tags == "endings":
                written = [vocabulary.symbols[token] for token in hypothesis.ids]
                assert [symbol for symbol in written if symbol[0] not in "()"] == words
            assert vocabulary.decode(hypothesis.ids, words).well_formed
            assert len(hypothesis.ids) + 1 <= len(source) + 1 + config.max_extra_tokens
    unconstrained = generate(engine, sources, config)
    assert not all(
        vocabulary.decode(found[0].ids, [str(word) for word in source]).well_formed
        for source, found in zip(sources, unconstrained, strict=True)
    )


def test_no_output_is_deeper_than_it_may_be() -> None:
    vocabulary = TreeVocabulary.learn(TREES, "normalised", "labelled")
    constraint = TreeConstraint(vocabulary, words_of, SearchConfig(max_extra_tokens=1_000), max_depth=7)
    opening = vocabulary.symbols.index("(NP")
    assert opening in allowed(constraint, [opening] * 6, [5, END])
    assert allowed(constraint, [opening] * 7, [5, END]) == [vocabulary.symbols.index("XX")]


def test_where_no_tree_fits_nothing_is_allowed() -> None:
    vocabulary = TreeVocabulary.learn(TREES, "normalised", "plain")
    for config, positions in ((SearchConfig(max_length=4), None), (SearchConfig(), 4)):
        assert allowed(TreeConstraint(vocabulary, words_of, config, positions), [], [5, 6, END]) == []
        assert allowed(TreeConstraint(vocabulary, words_of, config, positions), [], [5, END]) != []
