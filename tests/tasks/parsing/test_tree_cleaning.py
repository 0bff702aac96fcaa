"""Traces, functions and doubled labels go, all else stays, and what went is counted."""

from collections import Counter

from allyouneed.tasks.parsing.tree_cleaning import clean, clean_trees, without_unary_cycles
from allyouneed.tasks.parsing.trees import tree_of, trees_in


def test_cleaning_takes_traces_and_functions_away_and_counts_them() -> None:
    subject = "(NP-SBJ-1 (NP=2 (NN a)) (NP (-NONE- *-1)))"
    raw = f"( (S {subject} (VP (-LRB- -LRB-) (SBAR (-NONE- 0) (S (-NONE- *))))))"
    notes: Counter[str] = Counter()
    cleaned = clean(tree_of(raw), notes)
    assert str(cleaned) == "(TOP (S (NP (NP (NN a))) (VP (-LRB- -LRB-))))"
    assert notes == {"function tags removed": 2, "traces removed": 3}
    assert clean(tree_of("(S (NP (-NONE- *)))")) is None
    assert str(tree_of("(S (-NONE- *T*-1))")) == "(TOP (S (-NONE- *T*-1)))"


def test_trees_of_traces_alone_are_left_out_and_counted() -> None:
    notes: Counter[str] = Counter()
    kept = clean_trees(trees_in(["(S (-NONE- *))", "(S (NN a))"], "the file"), notes)
    assert [line for _, line in kept] == [2]
    assert notes["trees of nothing but traces, left out"] == 1


def test_unary_cycles_keep_each_label_once_the_outermost() -> None:
    chain = tree_of("(S (NP (QP (NP (NP (NN a) (NP (NN b)))))) (NP (NN c)))")
    assert str(without_unary_cycles(chain)) == "(TOP (S (NP (QP (NN a) (NP (NN b)))) (NP (NN c))))"
