"""Exchange of constituents: what is made are trees, of parts that were seen, the same each time."""

from random import Random
from typing import TYPE_CHECKING

from allyouneed.tasks.parsing.treebank import exchange_constituents, replace_constituent
from allyouneed.tasks.parsing.trees import tree_of

if TYPE_CHECKING:
    from tests.tasks.parsing.conftest import RandomTrees

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
