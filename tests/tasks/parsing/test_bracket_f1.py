"""The scores are EVALB's: its own sample files, and a count of brackets as slow as it is plain."""

import re
from pathlib import Path
from random import Random

import pytest

from allyouneed.errors import DataError
from allyouneed.tasks.parsing.bracket_f1 import COLLINS, BracketRules, BracketScores, score_tree, score_trees
from allyouneed.tasks.parsing.treebank import clean, clean_trees
from allyouneed.tasks.parsing.trees import Tree, read_trees, tree_of

GOLD = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"
INNER = GOLD.removeprefix("(S ").removesuffix(")")
SAMPLE_RULES = BracketRules(COLLINS.deleted - {"."}, (frozenset({"T", "TT"}),))

# The files sample.gld, sample.tst and sample.rsl of EVALB (Sekine and Collins, in the public domain), as far
# as it calls their sentences valid: number, gold tree, tree, and recall, precision, matched, gold, test,
# words, correct tags; crossing brackets are left out. Line 19 is lower-cased, which its EQ_WORD does; the
# trees of line 8, which has no root, are given one that does not count.
SAMPLE = [
    (1, GOLD, GOLD, 100.00, 100.00, 4, 4, 4, 4, 4),
    (2, GOLD, "(S (A (P this)) (B (Q is) (C (R a) (T test))))", 75.00, 75.00, 3, 4, 4, 4, 4),
    (3, GOLD, "(S (A (P this)) (B (Q is) (A (R a) (U test))))", 100.00, 100.00, 4, 4, 4, 4, 3),
    (4, GOLD, "(S (C (P this)) (B (Q is) (A (R a) (U test))))", 75.00, 75.00, 3, 4, 4, 4, 3),
    (5, GOLD, "(S (A (P this)) (B (Q is) (R a) (A (T test))))", 75.00, 75.00, 3, 4, 4, 4, 4),
    (6, GOLD, "(S (A (P this) (Q is)) (A (R a) (T test)))", 50.00, 66.67, 2, 4, 3, 4, 4),
    (7, GOLD, "(S (P this) (Q is) (R a) (T test))", 25.00, 100.00, 1, 4, 1, 4, 4),
    (8, GOLD, "(TOP (P this) (Q is) (R a) (T test))", 0.00, 0.00, 0, 4, 0, 4, 4),
    (9, GOLD, "(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", 100.00, 80.00, 4, 4, 5, 4, 4),
    (
        10,
        GOLD,
        "(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))",
        *(100.00, 50.00, 4, 4, 8, 4, 4),
    ),
    (15, GOLD, f"(TOP {GOLD})", 100.00, 100.00, 4, 4, 4, 4, 4),
    (18, GOLD, "(S (A (P this)) (B (Q is) (A (R a) (TT test))))", 100.00, 100.00, 4, 4, 4, 4, 4),
    (19, GOLD, GOLD, 100.00, 100.00, 4, 4, 4, 4, 4),
    (
        21,
        "(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))",
        GOLD,
        *(100.00, 100.00, 4, 4, 4, 4, 4),
    ),
    (22, f"(S {' '.join([INNER] * 11)})", f"(S {' '.join([INNER] * 11)})", 100, 100, 34, 34, 34, 44, 44),
    (23, f"(S {INNER} (-NONE- *))", f"(S {INNER} (-NONE- *))", 100.00, 100.00, 4, 4, 4, 4, 4),
    (24, f"(S {INNER} (: *))", f"(S {INNER} (: *))", 100.00, 100.00, 4, 4, 4, 4, 4),
]


@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: str(row[0]))
def test_every_line_of_evalbs_sample_agrees(row: tuple[int, str, str, float, float, int]) -> None:
    _, gold, test, recall, precision, *counts = row
    found = score_tree(tree_of(gold), tree_of(test), SAMPLE_RULES)
    brackets = found.brackets
    assert [f"{brackets.recall:.2f}", f"{brackets.precision:.2f}"] == [f"{recall:.2f}", f"{precision:.2f}"]
    assert counts == [
        brackets.matched,
        brackets.gold,
        brackets.test,
        found.num_words,
        found.num_correct_tags,
    ]


def test_the_sums_of_evalbs_sample_agree() -> None:
    trees = [(tree_of(gold), tree_of(test)) for _, gold, test, *_ in SAMPLE]
    total = score_trees([gold for gold, _ in trees], [test for _, test in trees], SAMPLE_RULES)
    assert (total.brackets.matched, total.brackets.gold, total.brackets.test) == (86, 98, 95)
    assert (total.num_words, total.num_correct_tags) == (108, 106)
    scores = {score.name: round(score.value, 2) for score in total.scores(tagged=True)}
    expected = {
        "bracket_recall": 87.76,
        "bracket_precision": 90.53,
        "exact_match": 52.94,
        "tag_accuracy": 98.15,
    }
    assert scores == expected | {"bracket_f1": round(2 * 86 / (98 + 95) * 100, 2)}
    assert "tag_accuracy" not in [score.name for score in total.scores(tagged=False)]


@pytest.mark.parametrize(
    ("test", "fault"),
    [  # lines 12, 13 and 20 of the sample, where EVALB reports an error
        ("(S (A (P this)) (B (Q was) (A (A (R a) (T test)))))", "word 2 is 'is' in the gold tree, but 'was'"),
        (
            "(S (A (P this)) (B (Q is) (U not) (A (A (R a) (T test)))))",
            "word 3 is 'a' in the gold tree, but 'not'",
        ),
        ("(S (A (P That)) (B (Q is) (A (R a) (T test))))", "word 1 is 'this'"),
        ("(S (A (P this)))", "the gold tree has 4 words, the other 1"),
    ],
)
def test_trees_of_different_words_are_refused(test: str, fault: str) -> None:
    with pytest.raises(DataError, match=re.escape(fault)) as caught:
        score_trees([tree_of(GOLD), tree_of(GOLD)], [tree_of(GOLD), tree_of(test)])
    assert str(caught.value).startswith("sentence 2: ")


def test_a_sentence_without_a_tree_counts_with_nothing_found() -> None:
    total = score_trees([tree_of(GOLD), tree_of(GOLD)], [tree_of(GOLD), None])
    assert (total.brackets.matched, total.brackets.gold, total.brackets.test) == (4, 8, 4)
    assert (total.num_words, total.num_correct_tags, total.num_exact) == (8, 4, 1)
    nothing_to_find = tree_of("(TOP (NN Fire))")
    assert score_trees([nothing_to_find] * 2, [nothing_to_find, None]).num_exact == 1


def test_a_sentence_without_a_gold_tree_keeps_its_number_but_is_not_scored() -> None:
    gold, other = tree_of(GOLD), tree_of("(S (NN Fire))")
    total = score_trees([None, gold, None], [other, gold, None])
    assert (total.num_sentences, total.brackets.matched, total.brackets.test) == (1, 4, 4)
    with pytest.raises(DataError, match="sentence 2: word 1"):
        score_trees([None, gold], [None, other])
    with pytest.raises(DataError, match="there are no trees to score"):
        score_trees([None], [gold])


def test_a_sentence_of_punctuation_alone_is_skipped_as_evalb_skips_it() -> None:
    dots = tree_of("(TOP (S (. .)))")
    scores = {
        score.name: score.value for score in score_trees([dots, tree_of(GOLD)], [dots, None]).scores(True)
    }
    assert scores["exact_match"] == 0
    scores = {score.name: score.value for score in score_trees([dots], [dots]).scores(tagged=True)}
    assert scores["exact_match"] == 0


def test_counts_that_differ_are_refused() -> None:
    with pytest.raises(DataError, match="1 gold trees but 0"):
        score_trees([tree_of(GOLD)], [])
    with pytest.raises(DataError, match="no trees"):
        score_trees([], [])


def test_punctuation_goes_by_the_gold_tags_and_adverbs_equal_particles() -> None:
    gold = tree_of("(TOP (S (NP (PRP He)) (VP (VBD gave) (PRT (RP up))) (, ,) (FRAG (. .))))")
    test = tree_of("(S (NP (XX He)) (VP (XX gave) (ADVP (XX up)) (XX ,)) (XX .))")
    found = score_tree(gold, test)
    assert (found.brackets.matched, found.brackets.gold, found.brackets.test) == (4, 4, 4)
    assert found.is_exact
    assert (found.length, found.num_words, found.num_correct_tags) == (5, 3, 0)
    assert list(found.by_label) == ["S", "NP", "VP", "ADVP"]


def test_no_match_and_no_bracket_are_zero() -> None:
    none = score_tree(tree_of("(TOP (NN a))"), tree_of("(TOP (NN a))"))
    assert (none.brackets.recall, none.brackets.precision, none.brackets.f1) == (0, 0, 0)
    assert score_tree(tree_of("(S (NN a))"), tree_of("(NP (NN a))")).brackets.f1 == 0
    assert [score.value for score in BracketScores().scores(tagged=True)] == [0] * 5


def test_a_thousand_words_are_scored_and_land_in_their_row_by_length() -> None:
    long = tree_of("(S " + "(NN a) " * 1_000 + ")")
    total = score_trees([long, tree_of(GOLD)], [long, tree_of(GOLD)])
    assert total.brackets.f1 == 100
    assert {tens: b.gold for tens, b in total.by_length.items()} == {99: 1, 0: 4}
    titles, short, longest = (line.split() for line in total.length_table().split("\n"))
    assert titles == ["words", "gold", "test", "matched", "recall", "precision", "F1", "sentences"]
    assert short == ["1-10", "4", "4", "4", "100.00", "100.00", "100.00", "1"]
    assert longest == ["991-1000", "1", "1", "1", "100.00", "100.00", "100.00", "1"]


def test_the_counts_are_those_of_plain_counting_on_real_trees(data_folder: Path) -> None:
    """Each sentence is scored against the tree of another's shape, pruned to its length."""
    gold = [t for t, _ in clean_trees(read_trees(data_folder / "ptb_sample" / "dev.mrg"))]
    draw = Random(1)
    for tree in gold[:100]:
        kept = [tree.constituents[0], *(c for c in tree.constituents[1:] if draw.random() < 0.7)]
        moved = [c._replace(label=draw.choice(["NP", "PRT", c.label])) for c in kept]
        test = Tree(tree.words, tuple("XX" for _ in tree.tags), tuple(moved))
        found = score_tree(tree, test).brackets
        assert (found.matched, found.gold, found.test) == plain_counts(tree, test)
    same = score_trees(gold, gold)
    assert same.brackets.f1 == 100 == same.scores(tagged=True)[-1].value
    assert same.label_table().split("\n")[1].split()[:3] == ["NP", "2205", "2205"]


def plain_counts(gold: Tree, test: Tree) -> tuple[int, int, int]:
    """Lists of sets of word numbers, crossed off one by one."""
    punctuation = {i for i, tag in enumerate(gold.tags) if tag in ("``", "''", ",", ".", ":")}

    def sets_of(tree: Tree) -> list[tuple[str, frozenset[int]]]:
        found = [
            ("PRT" if label == "ADVP" else label, frozenset(range(start, end)) - punctuation)
            for label, start, end in tree.constituents
        ]
        return [(label, words) for label, words in found if words and label != "TOP"]

    waiting, num_matched = sets_of(test), 0
    for constituent in sets_of(gold):
        if constituent in waiting:
            waiting.remove(constituent)
            num_matched += 1
    return num_matched, len(sets_of(gold)), len(sets_of(test))


def test_traces_do_not_matter() -> None:
    raw = tree_of("( (S (NP-SBJ (-NONE- *)) (VP (VB go) (NP (NP (-NONE- *T*)) (NN a)))))")
    cleaned = clean(raw)
    assert cleaned is not None
    assert score_tree(raw, raw).brackets == score_tree(cleaned, cleaned).brackets
