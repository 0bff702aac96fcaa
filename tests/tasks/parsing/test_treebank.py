"""Exchange of constituents: what is made are trees, of parts that were seen, the same each time."""

from random import Random
from typing import TYPE_CHECKING

from allyouneed.tasks.parsing.treebank import exchange_constituents, replace_constituent
from allyouneed.tasks.parsing.trees import tree_of

if TYPE_CHECKING:
    from tests.tasks.parsing.conftest import RandomTrees
from collections import Counter

from allyouneed.tasks.parsing.treebank import clean, clean_trees, without_unary_cycles
from allyouneed.tasks.parsing.trees import trees_in

SHE = tree_of("(TOP (S (NP (PRP She)) (VP (VBZ sees) (NP (DT a) (NN wolf))) (. .)))")
SUN = tree_of("(TOP (S (NP (NP (DT the) (NN sun)) (PP (IN in) (NP (NNP Rome)))) (VP (VBZ shines))))")


def test_a_replaced_constituent_by_hand() -> None:
    assert str(replace_constituent(SHE, 4, SUN, 2)) == (
        "(TOP (S (NP (PRP She)) (VP (VBZ sees)"
        " (NP (NP (DT the) (NN sun)) (PP (IN in) (NP (NNP Rome))))) (. .)))"
    )
    assert str(replace_constituent(SUN, 2, SHE, 2)) == "(TOP (S (NP (PRP She)) (VP (VBZ shines))))"


def test_replacing_is_what_replacing_in_the_text_of_brackets_is(random_trees: "RandomTrees") -> None:
    trees, draw = list(random_trees(1_000)), Random(2)
    for tree in trees:
        other = draw.choice(trees)
        place, other_place = (draw.randrange(len(t.constituents)) for t in (tree, other))
        begin, end = bracket(str(tree), place)
        other_begin, other_end = bracket(str(other), other_place)
        expected = str(tree)[:begin] + str(other)[other_begin:other_end] + str(tree)[end:]
        made = replace_constituent(tree, place, other, other_place)
        assert f"{made}" == expected


def bracket(text: str, place: int) -> tuple[int, int]:
    """From where to where the constituent of this number stands in a text of brackets."""
    openings = [i for i, character in enumerate(text) if character == "("]
    # A tag is followed by a word, and only then by `)`; a constituent by another bracket.
    begin = [i for i in openings if "(" in text[i + 1 :].split(")", maxsplit=1)[0]][place]
    depth = 0
    for end in range(begin, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return begin, end + 1
    raise AssertionError(text)


def test_new_trees_are_made_of_what_was_seen_and_are_the_same_for_the_same_seed() -> None:
    made = list(exchange_constituents([SHE, SUN], 50, seed=3))
    assert len(made) == 50
    words = {*SHE.words, *SUN.words}
    for place, tree in made:
        assert tree == tree_of(str(tree))
        assert tree.words != (SHE, SUN)[place].words
        assert set(tree.words) <= words
        assert len(tree.words) <= 6
    assert made == list(exchange_constituents([SHE, SUN], 50, seed=3))
    assert made != list(exchange_constituents([SHE, SUN], 50, seed=4))


def test_where_nothing_can_be_exchanged_nothing_is_made() -> None:
    flat = tree_of("(TOP (UH no))")
    assert list(exchange_constituents([flat, flat], 5)) == []
    assert list(exchange_constituents([SHE], 5)) != []
    alike = tree_of("(TOP (S (NP (PRP She)) (VP (VBZ sleeps))))")
    assert list(exchange_constituents([alike, alike], 5)) == []


def test_cleaning_takes_traces_and_functions_away_and_counts_them() -> None:
    subject = "(NP-SBJ-1 (NP=2 (NN a)) (NP (-NONE- *-1)))"
    raw = f"( (S {subject} (VP (-LRB- -LRB-) (SBAR (-NONE- 0) (S (-NONE- *))))))"
    notes: Counter[str] = Counter()
    cleaned = clean(tree_of(raw), notes)
    assert str(cleaned) == "(TOP (S (NP (NP (NN a))) (VP (-LRB- -LRB-))))"
    assert notes == {"function tags removed": 2, "traces removed": 3}
    assert clean(tree_of("(S (NP (-NONE- *)))")) is None
    assert str(tree_of("(S (-NONE- *T*-1))")) == "(TOP (S (-NONE- *T*-1)))"


def test_trees_without_words_are_left_out_and_counted_by_the_reason() -> None:
    notes: Counter[str] = Counter()
    codes = ["( (CODE <P_1>))", "( (METADATA (AUTHOR Ann)) (NP *pro*) (ID X,1))"]
    lines = ["(S (-NONE- *))", "(())", "(S (NN a))", *codes, "(TOP)", "()"]
    assert [line for _, line in clean_trees(trees_in(lines, "the file"), notes)] == [3]
    assert notes == {
        "trees of nothing but traces, left out": 1,
        "trees of nothing but IDs, codes or metadata, left out": 2,
        "sentences without a tree, left out": 3,
        "function tags removed": 0,
        "traces removed": 0,
    }


def test_unary_cycles_keep_each_label_once_the_outermost() -> None:
    chain = tree_of("(S (NP (QP (NP (NP (NN a) (NP (NN b)))))) (NP (NN c)))")
    assert str(without_unary_cycles(chain)) == "(TOP (S (NP (QP (NN a) (NP (NN b)))) (NP (NN c))))"
