"""What of a label is left without its function.

Nodes of known treebanks that are no words are removed, as the table in the documentation says.
Trees come back as they were written, whatever they hold; what is no tree is told by line and column.
"""

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packages import require_packages

from allyouneed.errors import DataError
from allyouneed.tasks.parsing.treebank import clean, clean_trees
from allyouneed.tasks.parsing.trees import (
    CODES,
    COMMENTS,
    NO_TREE,
    NO_WORDS,
    TRACES,
    Constituent,
    Tree,
    escaped,
    read_trees,
    tree_of,
    trees_in,
    unescaped,
    without_function,
)

if TYPE_CHECKING:
    from tests.tasks.parsing.conftest import RandomTrees


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("ADVP|PRT-CLR", "ADVP|PRT"),
        ("-LRB-", "-LRB-"),
        ("=", "="),
        ("", ""),
    ],
)
def test_what_follows_a_hyphen_or_an_equals_sign_is_left_out(label: str, bare: str) -> None:
    assert without_function(label) == bare


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


SHE_SLEEPS = Tree(
    ("She", "sleeps", "."),
    ("PRP", "VBZ", "."),
    (
        Constituent("TOP", 0, 3),
        Constituent("S", 0, 3),
        Constituent("NP", 0, 1),
        Constituent("VP", 1, 2),
    ),
)
SHE_SLEEPS_IN_BRACKETS = "(TOP (S (NP (PRP She)) (VP (VBZ sleeps)) (. .)))"


@pytest.fixture
def read(tmp_path: Path):  # type: ignore[no-untyped-def]
    def read_text(text: str, notes: Counter[str] | None = None) -> list[tuple[Tree, int]]:
        file = tmp_path / "trees.mrg"
        file.write_bytes(text.encode())
        return [(tree, line) for tree, line in read_trees(file, notes=notes)]

    return read_text


def without_space(text: str) -> str:
    return re.sub(r"\s*([()])\s*", r"\1", text)


def labels(tree: Tree) -> list[str]:
    return [constituent.label for constituent in tree.constituents]


def test_a_tree_by_hand() -> None:
    assert str(SHE_SLEEPS) == SHE_SLEEPS_IN_BRACKETS
    assert tree_of(SHE_SLEEPS_IN_BRACKETS) == SHE_SLEEPS
    lines = ["(TOP", "  (S", "    (NP (PRP She))", "    (VP (VBZ sleeps)) (. .)))"]
    assert SHE_SLEEPS.indented() == "\n".join(lines)


def test_ten_thousand_random_trees_are_read_as_they_were_written(random_trees: "RandomTrees") -> None:
    for tree in random_trees(10_000):
        assert tree_of(str(tree)) == tree
    for tree in random_trees(1_000):
        assert tree_of(tree.indented()) == tree


@given(st.text(st.characters(exclude_characters=" \t\n\r\f\v", exclude_categories=["Cs"]), min_size=1))
def test_any_word_is_read_as_it_was_written(word: str) -> None:
    tree = Tree((word,), ("NN",), (Constituent("TOP", 0, 1),))
    if re.search("-[LR][RSC]B-", word) is None:  # which are brackets
        assert tree_of(str(tree)) == tree


def test_the_treebank_is_written_as_it_was_read_and_stays_the_same_once_it_is_clean(
    data_folder: Path,
) -> None:
    for part, num_trees in (("train", 3_401), ("dev", 276)):
        file = data_folder / "ptb_sample" / f"{part}.mrg"
        placed = list(read_trees(file))
        assert len(placed) == num_trees
        written = " ".join(str(tree) for tree, _ in placed)
        published = file.read_bytes().decode()
        assert without_space(written) == without_space(published).replace("((", "(TOP(")
        for tree, _ in clean_trees(placed):
            assert tree_of(str(tree)) == tree == clean(tree)
            assert "-NONE-" not in tree.tags
            assert all(re.fullmatch(r"[A-Z]+(\|[A-Z]+)?", label) for label in labels(tree))


def test_trees_may_go_over_lines_and_share_one(read) -> None:  # type: ignore[no-untyped-def]
    notes: Counter[str] = Counter()
    found = read("\n( (S\n (NN a) )\n)(TOP (S (NN b)))\n\n(TOP (NN c))", notes)
    assert [(" ".join(tree.words), line) for tree, line in found] == [("a", 2), ("b", 4), ("c", 6)]
    assert not notes
    assert read("(\nS\n (NP\n (NN\n dog)))") == [(tree_of("(S (NP (NN dog)))"), 1)]
    assert len(read("(S (NN a)) (S (NN b))", notes)) == 2
    assert notes == {"lines with more than one tree, all of which are read": 1}


@pytest.mark.parametrize("root", ["", "ROOT", "S1", "VROOT", "TOP"])
def test_every_root_is_called_top(root: str) -> None:
    assert tree_of(f"({root} (S (NN a)))") == tree_of("(S (NN a))") == tree_of("(TOP (S (NN a)))")
    assert labels(tree_of("(NN a)")) == ["TOP"]


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("(S (NN a))\n(S\n (NP (NN a))\n", "2:1", "the tree that begins here lacks 1 `)`"),
        ("(S (NN a)))", "1:11", "`)` without a `(`"),
        ("(S (NN a)) word", "1:12", "'word' outside of brackets"),
        ("(S (NP) (NN a))", "1:4", "(NP) holds no word"),
        ("(S (NN a) ())", "1:11", "() holds no word"),
        ("(())(S ())", "1:8", "() holds no word"),
        ("(TOP (S (NP)) (NN a))", "1:9", "(NP) holds no word"),
        ("(TOP (()) (NN a))", "1:6", "a constituent without a label"),
        ("(S)", "1:1", "(S) holds no word"),
        ("( a)", "1:1", "(a) holds no word"),
        ("(S (NN a b))", "1:10", "'b' without a tag"),
        ("(S (NN a) b)", "1:11", "'b' without a tag"),
        ("(S a (NN b))", "1:6", "a bracket beside the word 'a'"),
        ("(S ((NN a)))", "1:4", "a constituent without a label"),
    ],
)
def test_what_is_no_tree_is_told_by_line_and_column(read, text: str, place: str, fault: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=re.escape(fault)) as caught:
        read(text)
    assert f"trees.mrg:{place}: " in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        *("(())", "()", "( )", "(TOP)", "(ROOT )", "(S1 (S))", "(TOP (S (NP) (VP (V))))", "(ROOT (()))"),
        *("(\n(\n)\n)", "(ROOT\n  (S\n))", "SENTENCE_SKIPPED_OR_UNPARSABLE"),
    ],
)
def test_a_tree_of_a_parser_that_failed_is_no_tree_in_its_place(read, text: str) -> None:  # type: ignore[no-untyped-def]
    a, b = tree_of("(S (NN a))"), tree_of("(S (NN b))")
    last = 3 + text.count("\n")
    assert read(f"(S (NN a))\n{text}\n(S (NN b))\n") == [(a, 1), (NO_TREE, 2), (b, last)]
    if "(" in text:
        assert [tree for tree, _ in read(f"(S (NN a)){text}(S (NN b))")] == [a, NO_TREE, b]


def test_comments_between_trees_are_skipped_and_counted(read) -> None:  # type: ignore[no-untyped-def]
    notes: Counter[str] = Counter()
    comments = [
        "*x* (C) 1995 *x*",
        "%% Sent 1",
        ";; (S",
        "  # a",
        "<S ID=1>",
        "Sentence skipped: no PCFG fallback.",
    ]
    blocks = ["/~*", "he went", "(ID X,1) /*", "*~/", "/* 1 IP-MAT: 1 IP-MAT */"]
    found = read("\n".join([*comments, "(S (NN a))", *blocks, "(S", "(NN %%) (NN ;;))", "</S>"]), notes)
    assert [(tree.words, line) for tree, line in found] == [(("a",), 7), (("%%", ";;"), 13)]
    assert notes == {"lines of comments skipped": 12}
    beside = read("/* a */ /* (b */(S (NN a))\n/* c\n d */ (S (NN b))")
    assert [(tree.words, line) for tree, line in beside] == [(("a",), 1), (("b",), 3)]
    for text, fault in [
        ("(S (NN a))\n/* no end\n(S (NN b))", "2:1: the comment that begins here lacks its `*/`"),
        ("<b> (S (NN a))", "1:1: '<b>' outside of brackets"),
    ]:
        with pytest.raises(DataError, match=re.escape(fault)):
            read(text)


@pytest.mark.parametrize("text", ["", "(S (NN a)) (S (NN b))", "(S", "(())"])
def test_a_text_that_is_not_one_tree_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        tree_of(text)


def test_brackets_slashes_and_spaces_in_words_are_escaped() -> None:
    for word, in_file in {
        "(": "-LRB-",
        ":-}": ":--RCB-",
        "[sic]": "-LSB-sic-RSB-",
        "1/2": r"1\/2",
        "*": r"\*",
        "\\/": r"\\/",
    }.items():
        assert escaped(word) == in_file
        assert unescaped(escaped(word)) == word
    assert escaped("a b\tc") == "a\u00a0b\u00a0c"
    assert tree_of("(S (NN a\u00a0b\u2028c\u0085d))").words == ("a\u00a0b\u2028c\u0085d",)
    assert str(Tree(("a",), ("N N",), (Constituent("(", 0, 1),))) == "(-LRB- (N\u00a0N a))"


@pytest.mark.parametrize("word", ["\\", "C:\\", "\\\\", "a\\/", "\\(", ":-\\)", "/"])
def test_nltk_reads_words_as_they_are_in_the_file(word: str) -> None:
    require_packages("nltk")
    from nltk import Tree as TheirTree

    tree = Tree((word, "a"), ("NN", "NN"), (Constituent("TOP", 0, 2), Constituent("NP", 0, 1)))
    for written in str(tree), tree.indented():
        assert TheirTree.fromstring(written).leaves() == [escaped(word), "a"]
        assert tree_of(written) == tree


def test_a_tree_ten_thousand_deep_is_read_cleaned_and_written(read) -> None:  # type: ignore[no-untyped-def]
    depth = 10_000
    text = "".join(f"(NP-{i} (NN a) " for i in range(depth)) + "(NN b)" + ")" * depth
    [(tree, _)] = read(text)
    cleaned = clean(tree)
    assert cleaned is not None
    assert len(cleaned.words) == len(cleaned.constituents) == depth + 1
    assert str(cleaned) == "(TOP " + "(NP (NN a) " * depth + "(NN b)" + ")" * (depth + 1)
    assert tree_of(str(cleaned)) == cleaned
