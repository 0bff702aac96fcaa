"""Linearising and back is the identity; any symbols at all become a tree over the words."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.parsing.linearisation import (
    WORD,
    Brackets,
    Tags,
    build_tree,
    linearise,
    symbols_per_word,
    unjoined,
)
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import clean_trees
from allyouneed.tasks.parsing.trees import Constituent, Tree, read_trees, tree_of

if TYPE_CHECKING:
    from tests.tasks.parsing.conftest import RandomTrees

JOHN = tree_of("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
BRACKETS: tuple[Brackets, ...] = ("labelled", "plain", "joined")
MODES: list[tuple[Tags, Brackets]] = [
    *((tags, brackets) for tags in ("normalised", "predicted", "endings") for brackets in BRACKETS),
    ("words", "joined"),
]


def without_tags(tree: Tree) -> Tree:
    return replace(tree, tags=(WORD,) * len(tree.words))


def there_and_back(tree: Tree, tags: Tags, brackets: Brackets) -> tuple[Tree, bool]:
    symbols: Iterable[str] = linearise(tree, tags, brackets)
    if brackets == "joined":
        assert len(list(symbols)) == symbols_per_word(tags) * len(tree.words)
        symbols = unjoined(symbols, tags)
    tree, well_formed = build_tree(symbols, tree.words)
    return (without_tags(tree) if tags == "endings" else tree), well_formed


def test_the_example_of_grammar_as_a_foreign_language() -> None:
    # Vinyals et al. 2015, figure 2
    expected = "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert " ".join(linearise(JOHN, "predicted")) == expected
    assert " ".join(linearise(JOHN)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearise(JOHN, "endings")) == "(S (NP n )NP (VP s (NP a g )NP )VP XX )S"
    assert " ".join(linearise(JOHN, brackets="plain")) == "(S (NP XX ) (VP XX (NP XX XX ) ) XX )"


def test_joined_brackets_are_two_symbols_a_word_or_more() -> None:
    assert " ".join(linearise(JOHN, brackets="joined")) == "(S(NP )1 (VP )0 (NP )0 ( )2 ( )1"
    expected = "(S(NP NNP )1 (VP VBZ )0 (NP DT )0 ( NN )2 ( . )1"
    assert " ".join(linearise(JOHN, "predicted", "joined")) == expected
    expected = "(S(NP n )1 (VP s )0 (NP a )0 ( g )2 ( XX )1"
    assert " ".join(linearise(JOHN, "endings", "joined")) == expected
    words = linearise(JOHN, "words", "joined")
    assert words[:8] == ["form John", "(S(NP", "NNP", ")1", "form has", "(VP", "VBZ", ")0"]
    # Each label alone, no label, and each number up to the largest are there though no tree has them.
    vocabulary = TreeVocabulary.learn([str(JOHN), "(S (A (B (C (NN a)))))"], "normalised", "joined")
    joined = {"(S(NP", "(VP", "(NP", "(", "(S(A(B(C", "(S", "(A", "(B", "(C"}
    assert {*vocabulary.symbols[UNKNOWN + 1 :]} == joined | {f"){number}" for number in range(5)}
    assert vocabulary.decode(vocabulary.encode("(A (B (NN a) (NN b)))"), ["a", "b"]).well_formed is False


def test_joined_outputs_that_are_no_trees_are_repaired() -> None:
    draw = Random(1)
    vocabulary = TreeVocabulary.learn([str(JOHN)], "predicted", "joined")
    num_well_formed = 0
    for _ in range(10_000):
        words = tuple("abcd"[: draw.randint(1, 4)])
        ids = draw.choices(range(vocabulary.vocab_size), k=draw.randint(0, 12))
        tree, well_formed = vocabulary.decode(ids, words)
        assert tree.words == words
        assert tree_of(str(tree)) == tree
        num_well_formed += well_formed
    assert num_well_formed > 0


def test_a_root_with_several_children_is_kept() -> None:
    fragments = tree_of("(TOP (NP (NN a)) (. .))")
    assert " ".join(linearise(fragments)) == "(TOP (NP XX )NP XX )TOP"
    assert build_tree(linearise(fragments, "predicted"), fragments.words) == (fragments, True)


def test_linearising_and_back_is_the_identity_on_ten_thousand_random_trees(
    random_trees: "RandomTrees",
) -> None:
    for number, tree in enumerate(random_trees(10_000)):
        tags, brackets = MODES[number % len(MODES)]
        expected = tree if tags in ("predicted", "words") else without_tags(tree)
        assert there_and_back(tree, tags, brackets) == (expected, True)


def test_it_is_the_identity_on_every_tree_of_the_treebank(data_folder: Path) -> None:
    for part, modes in (("train", MODES[3:]), ("dev", MODES)):
        for tree, _ in clean_trees(read_trees(data_folder / "ptb_sample" / f"{part}.mrg")):
            for tags, brackets in modes:
                expected = tree if tags in ("predicted", "words") else without_tags(tree)
                assert there_and_back(tree, tags, brackets) == (expected, True)


SYMBOLS = ["(S", "(NP", "(TOP", ")S", ")NP", ")TOP", ")", "XX", "NN"]


def test_ten_thousand_random_outputs_are_repaired_to_trees_over_the_words() -> None:
    draw = Random(1)
    num_well_formed = 0
    for _ in range(10_000):
        num_words = draw.randint(1, 4)
        symbols = draw.choices(SYMBOLS, k=draw.randint(0, 4 + 2 * num_words))
        num_well_formed += require_a_tree(symbols, num_words)
    assert num_well_formed > 0  # so that both kinds were seen
    for tree_symbols in (["(S", "NN", "NN", ")S"], ["(S", "(NP", "XX", ")", ")"], ["(TOP", "XX", ")TOP"]):
        assert require_a_tree(tree_symbols, tree_symbols.count("NN") + tree_symbols.count("XX"))


@given(st.lists(st.sampled_from(SYMBOLS)), st.integers(1, 8))
def test_any_symbols_are_repaired_to_a_tree_over_the_words(symbols: list[str], num_words: int) -> None:
    require_a_tree(symbols, num_words)


def require_a_tree(symbols: list[str], num_words: int) -> bool:
    """Whether the symbols were well-formed; they have become a tree in any case."""
    words = tuple("abcdefgh"[:num_words])
    tree, well_formed = build_tree(symbols, words)
    assert tree.words == words
    assert tree_of(str(tree)) == tree  # balanced, one root, nothing empty
    repaired = linearise(tree, "predicted")
    assert build_tree(repaired, words) == (tree, True)
    assert well_formed == is_balanced(symbols, num_words)
    return well_formed


def is_balanced(symbols: list[str], num_words: int) -> bool:
    """By rewriting: a constituent of words and constituents is one; in the end there is nothing else."""
    text = "".join((symbol if symbol[0] in "()" else "w") + " " for symbol in symbols)
    inside = re.compile(r"\((\S+) ((?:w |\[w+\] )+)\)(?:\1)? ")
    num_replaced = 1
    while num_replaced:
        text, num_replaced = inside.subn(lambda found: "[" + "w" * found[2].count("w") + "] ", text)
    return text == "[" + "w" * num_words + "] "


@pytest.mark.parametrize(
    ("symbols", "repaired"),
    [
        ("(S XX XX XX", "(S a b c)"),
        ("(S XX )S (NP XX XX )NP", "(TOP (S a) (NP b c))"),
        ("(S XX )S )S XX XX", "(TOP (S a) b c)"),
        ("(S (NP XX )S", "(TOP (S (NP a)) b c)"),
        ("(S XX )VP XX XX )S", "(S a b c)"),
        ("(S (NP )NP XX XX XX XX XX )S", "(S a b c)"),
        ("", "(TOP a b c)"),
        ("XX (NP XX", "(TOP a (NP b c))"),
    ],
)
def test_repairs_by_hand(symbols: str, repaired: str) -> None:
    tree, well_formed = build_tree(symbols.split(), ("a", "b", "c"))
    assert str(tree).replace("(XX ", "").replace(")", "") == repaired_text(repaired)
    assert not well_formed


def repaired_text(expected: str) -> str:
    whole = expected if expected.startswith("(TOP") else f"(TOP {expected})"
    return whole.replace(")", "")


def test_deep_trees_and_outputs_are_no_trouble() -> None:
    depth = 10_000
    deep = Tree(("a", "b"), ("X", "Y"), (Constituent("TOP", 0, 2), *[Constituent("NP", 0, 1)] * depth))
    assert build_tree(linearise(deep, "predicted"), deep.words) == (deep, True)
    unclosed, well_formed = build_tree(["(NP"] * depth + [WORD], ("a",))
    assert len(unclosed.constituents) == depth + 1
    assert not well_formed
