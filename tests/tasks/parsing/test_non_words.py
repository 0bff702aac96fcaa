"""Nodes of known treebanks that are no words are removed, as the table in the documentation says."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.tasks.parsing.non_words import CODES, COMMENTS, NO_WORDS, TRACES
from allyouneed.tasks.parsing.tree_cleaning import clean, clean_trees
from allyouneed.tasks.parsing.trees import Constituent, Tree, tree_of, trees_in

PAGE = (Path(__file__).parents[3] / "docs" / "parsing.md").read_bytes().decode()
SECTION = PAGE.split("### Nodes that are no words")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| `(\(.+?)` \| `(.+?)` \| (.+) \|$", SECTION, re.MULTILINE)
REMOVED = "IDs, codes, metadata, comments and marks of disfluencies removed"


def words(text: str) -> str:
    cleaned = clean(tree_of(text))
    return " ".join(cleaned.words) if cleaned else ""


@pytest.mark.parametrize(("tree", "left", "_"), ROWS, ids=[tree for tree, *_ in ROWS])
def test_every_row_of_the_table_holds(tree: str, left: str, _: str) -> None:
    assert words(tree) == left


def test_the_table_names_every_label_and_trace_that_the_code_knows() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `", SECTION, re.MULTILINE))
    shown = " ".join(tree for tree, *_ in ROWS)
    assert {
        label for label in CODES | COMMENTS | NO_WORDS if f"({label} " in shown
    } == CODES | COMMENTS | NO_WORDS
    named = re.findall(r"`\*([A-Za-z]+)\*`", next(why for *_, why in ROWS if "*ICH*" in why))
    assert set(named) == TRACES
    for trace in (*(f"*{name}*" for name in TRACES), "*T1*", "*T12*", "*PRO*", "*T*-1", "*RNR*-12"):
        assert words(f"(S (VB {trace}) (NN a))") == "a", trace


@pytest.mark.parametrize(
    "kept",
    [
        *("(CD 0)", "(NN 0)", "(SYM *)", "(CARD-NK 0)", "(NP *)", "(NN *word*)", r"(NFP \*con\*)", "(NN *1)"),
        *(
            "(LB |)",
            "(NN {a})",
            "(COM as)",
            "(ID X,1)",
            "(META a)",
            "(REF a)",
            "(, <dash>)",
            "(NN a-a)",
            "(-- a)",
        ),
    ],
)
def test_what_may_be_a_word_stays(kept: str) -> None:
    assert clean(tree_of(f"(S (X {kept} (NN b)))")) == tree_of(f"(S (X {kept} (NN b)))")
    assert clean(tree_of(f"(S {kept})")) == tree_of(f"(S {kept})")


@given(st.sampled_from(["*con*", "*", "*T*-1", "{a}", "<P_1>"]), st.sampled_from(["NN", "NP-SBJ", "C"]))
def test_a_word_written_by_the_package_stays_whatever_it_looks_like(word: str, tag: str) -> None:
    tree = Tree((word,), (tag,), (Constituent("TOP", 0, 1),))
    assert clean(tree_of(str(tree))) == tree


def test_lemmas_go_only_where_a_tree_shows_that_it_has_them() -> None:
    for text, left in {
        "(IP (CONJ og-og) (VBDI fóru-fara) (N dreng$-drengur) (D $inn-hinn))": "og fóru dreng$ $inn",
        "(IP (PRO Hann-hann))": "Hann",
        "(IP (N góð<dash>vin-góðvinur) (N konung-konungur) (ADV þar) (, ,-,))": "góð<dash>vin konung þar ,",
        "(IP (CODE <P_1>) (CONJ og-og) (NP *con*))": "og",
        "(IP (N by-law) (N court-baron))": "by-law court-baron",
        "(IP (ADV so-so) (ADV well))": "so-so well",
        "(IP (. -) (, --))": "- --",
    }.items():
        assert words(f"( {text} (ID 1450.X.NAR-SAG,.1))") == left
        assert words(f"( {text})") == " ".join(re.findall(r"\((?!CODE)\S+ ([^() *][^() ]*)\)", text)), (
            "without an ID"
        )


def test_switchboard_and_icepahc_are_read_with_an_account_of_what_went() -> None:
    switchboard = r"""*x* Copyright (C) *x*

( (CODE (SYM SpeakerA1) (. .) ))
( (S (EDITED (RM (-DFL- \[) ) (NP-SBJ (PRP I) ) (, ,) (IP (-DFL- \+) ) )
    (NP-SBJ (PRP I) ) (RS (-DFL- \]) ) (VP (VBP think) ) (. .) (-DFL- E_S) ))"""
    icepahc = """( (IP-MAT (CODE <heading>) (CONJ og-og) (NP-SBJ *con*) (VBDI fór-fara)
   (CP-REL (WNP-1 0) (C sem-sem) (IP-SUB (NP-SBJ *T*-1) (VBDI svaf-sofa))) (. .-.))
  (ID 1450.SAMPLE.NAR-SAG,.1))"""
    for text, tree, account in [
        (
            switchboard,
            "(TOP (S (EDITED (NP (PRP I)) (, ,)) (NP (PRP I)) (VP (VBP think)) (. .)))",
            {
                "lines of comments skipped": 1,
                "trees of nothing but IDs, codes or metadata, left out": 1,
                REMOVED: 4,
            },
        ),
        (
            icepahc,
            "(TOP (IP (CONJ og) (VBDI fór) (CP (C sem) (IP (VBDI svaf))) (. .)))",
            {"lemmas removed from words": 5, "traces removed": 3, REMOVED: 2},
        ),
    ]:
        notes: Counter[str] = Counter()
        assert [str(found) for found, _ in clean_trees(trees_in(text.split("\n"), "it", notes), notes)] == [
            tree
        ]
        del notes["function tags removed"]
        assert +notes == account
