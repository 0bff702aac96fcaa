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
