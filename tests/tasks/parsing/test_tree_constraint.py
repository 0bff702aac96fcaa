"""What the constraint lets through is exactly the trees over the words: all of them, and in search."""

import re
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from allyouneed.config.run import SearchConfig
from allyouneed.inference.generate import generate
from allyouneed.inference.selection import Constraint
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.symbols import END, UNKNOWN
from allyouneed.tasks.parsing.linearisation import Brackets, Tags, build_tree, form, symbols_per_word
from allyouneed.tasks.parsing.tree_constraint import JoinedTreeConstraint, TreeConstraint
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.word_features import UNKNOWN_WORD_CLASSES

if TYPE_CHECKING:
    from tests.tiny import TinyModel

MODES: list[tuple[Tags, Brackets]] = [
    *(
        (tags, brackets)
        for tags in ("normalised", "predicted", "endings")
        for brackets in ("labelled", "plain", "joined")
    ),
    ("words", "joined"),
]
TREES = ["(S (NP (NN a)) (VP (VB b) (NP (NN c))))"]


def words_of(source: Sequence[int]) -> list[str]:
    """In these tests every id is a word: a letter, so that many words have the same ending as others."""
    return ["abc"[token % 3] for token in source[:-1]]


def symbols_of(source: Sequence[int]) -> list[str]:
    """The words as outputs have them."""
    return list(map(form, words_of(source)))


def learned(trees: list[str], tags: Tags, brackets: Brackets) -> TreeVocabulary:
    vocabulary, words = (
        TreeVocabulary.learn(trees, tags, brackets),
        [*map(form, "abc"), *UNKNOWN_WORD_CLASSES],
    )
    return vocabulary.with_words(words) if tags == "words" else vocabulary


def allowed(constraint: Constraint, ids: list[int], source: list[int]) -> list[int]:
    states = constraint.start([source])[:, None]
    for token in ids:
        states = constraint.advance(states, np.array([[token]]))
    return constraint.table[constraint.classify(states)[0, 0]].nonzero()[0].tolist()  # type: ignore[no-any-return]


def constraint_of(vocabulary: TreeVocabulary, config: SearchConfig, **limits: int) -> Constraint:
    of_form = JoinedTreeConstraint if vocabulary.brackets == "joined" else TreeConstraint
    own = symbols_of if vocabulary.tags == "words" else words_of
    return of_form(vocabulary, own, config, **limits)


def all_allowed(constraint: Constraint, source: list[int]) -> set[tuple[int, ...]]:
    """All outputs to which the constraint leads; from wherever it leads there is a way to the end."""
    found, waiting = set(), [[]]  # type: ignore[var-annotated]
    while waiting:
        ids = waiting.pop()
        choices = allowed(constraint, ids, source)
        assert choices, "a hypothesis that cannot go on"
        found |= {tuple(ids)} if choices == [END] else set()
        waiting += [[*ids, token] for token in choices if token != END]
    return found


def symbols_of_words(tags: Tags, source: list[int]) -> list[str]:
    words = words_of(source)
    return words if tags == "endings" else [("XX" if tags == "normalised" else "NN")] * len(words)


@pytest.mark.parametrize(("tags", "brackets"), [mode for mode in MODES if mode[1] != "joined"])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_it_allows_all_trees_that_fit_and_nothing_else(tags: Tags, brackets: Brackets, words: int) -> None:
    vocabulary = TreeVocabulary.learn(["(S (NP (NN a)))"], tags, brackets)
    source = [*range(5, 5 + words), END]
    found = all_allowed(constraint_of(vocabulary, SearchConfig(max_extra_tokens=4)), source)
    known = [symbol for symbol in vocabulary.symbols[UNKNOWN + 1 :] if symbol[0] in "()"]
    expected = set()
    for length in range(len(source) + 4):  # with the end symbol it is that long
        for symbols in product([*known, "word"], repeat=length):
            if build_tree(symbols, "abc"[:words]).well_formed:
                of_words = iter(symbols_of_words(tags, source))
                written = [next(of_words) if symbol == "word" else symbol for symbol in symbols]
                expected.add(tuple(map(vocabulary.symbols.index, written)))
    assert found == expected
    assert found


@pytest.mark.parametrize("tags", ["normalised", "predicted", "endings", "words"])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_with_joined_brackets_it_allows_all_trees_that_have_symbols_and_nothing_else(
    tags: Tags, words: int
) -> None:
    vocabulary = learned(["(S (NP (NN a)))"], tags, "joined")
    source = [*range(5, 5 + words), END]
    found = all_allowed(constraint_of(vocabulary, SearchConfig()), source)
    expected = set()
    for choice in product(product(["(", "(S", "(NP", "(S(NP"], [0, 1, 2]), repeat=words):
        brackets, written = [], []
        own = zip(symbols_of_words(tags, source), symbols_of(source), strict=True)
        for (opening, ended), (word, as_symbol) in zip(choice, own, strict=True):
            written += [as_symbol] * (tags == "words")
            brackets += [*re.findall(r"\([A-Z]+", opening), "XX", *[")"] * ended]
            written += [opening, *([] if tags == "normalised" else [word]), f"){ended}"]
        if build_tree(brackets, "abc"[:words]).well_formed:
            expected.add(tuple(map(vocabulary.symbols.index, written)))
    assert found == expected
    assert found


@pytest.mark.parametrize(("tags", "brackets"), MODES)
@pytest.mark.parametrize("settings", [{}, {"sampling": True}, {"beam_size": 1, "max_extra_tokens": 2}])
def test_every_output_of_a_random_model_is_a_tree_over_the_words(
    tiny_model: "TinyModel", tags: Tags, brackets: Brackets, settings: dict[str, object]
) -> None:
    vocabulary = learned(TREES, tags, brackets)
    engine = TorchEngine(tiny_model(1, vocab_size=vocabulary.vocab_size))
    draw = Random(1)
    sources = [draw.choices(range(5, vocabulary.vocab_size), k=draw.randint(1, 12)) for _ in range(20)]
    config = SearchConfig(beam_size=3, max_extra_tokens=20).replace(**settings)
    if brackets == "joined":
        # For 12 words there are no shorter trees.
        config = config.replace(max_extra_tokens=12 * (symbols_per_word(tags) - 1))
    constraint = constraint_of(vocabulary, config)
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


def test_no_output_with_joined_brackets_is_deeper_than_it_may_be() -> None:
    vocabulary = TreeVocabulary.learn(["(S (NP (NN a)))"], "normalised", "joined")
    constraint = constraint_of(vocabulary, SearchConfig(), max_depth=3)
    ids = {symbol: token for token, symbol in enumerate(vocabulary.symbols)}
    begun, source = [ids["(S(NP"], ids[")0"]], [5, 6, 7, END]
    assert allowed(constraint, begun, source) == sorted([ids["("], ids["(S"], ids["(NP"]])
    # All three stay open no longer: the last word ends two at the most.
    assert allowed(constraint, [*begun, ids["(S"]], source) == sorted([ids[")1"], ids[")2"]])


def test_no_output_is_deeper_than_it_may_be() -> None:
    vocabulary = TreeVocabulary.learn(TREES, "normalised", "labelled")
    constraint = TreeConstraint(vocabulary, words_of, SearchConfig(max_extra_tokens=1_000), max_depth=7)
    opening = vocabulary.symbols.index("(NP")
    assert opening in allowed(constraint, [opening] * 6, [5, END])
    assert allowed(constraint, [opening] * 7, [5, END]) == [vocabulary.symbols.index("XX")]


def test_where_no_tree_fits_nothing_is_allowed() -> None:
    joined = TreeVocabulary.learn(TREES, "predicted", "joined")
    vocabulary = TreeVocabulary.learn(TREES, "normalised", "plain")
    for config, positions in ((SearchConfig(max_length=4), None), (SearchConfig(), 4)):
        assert allowed(TreeConstraint(vocabulary, words_of, config, positions), [], [5, 6, END]) == []
        assert allowed(TreeConstraint(vocabulary, words_of, config, positions), [], [5, END]) != []
    for config, positions in ((SearchConfig(max_length=6), None), (SearchConfig(), 6)):
        assert allowed(JoinedTreeConstraint(joined, words_of, config, positions), [], [5, 6, END]) == []
        assert allowed(JoinedTreeConstraint(joined, words_of, config, positions), [], [5, END]) != []
