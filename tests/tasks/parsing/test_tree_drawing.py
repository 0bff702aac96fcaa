"""Trees as pictures: XML without scripts, words in their order, constituents above what they hold."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from allyouneed.tasks.parsing.tree_drawing import draw_trees
from allyouneed.tasks.parsing.trees import Constituent, Tree, tree_of

SVG = "{http://www.w3.org/2000/svg}"
TREE = tree_of("(TOP (S (NP (PRP She)) (VP (VBZ sees) (NP (DT a) (JJ very) (NN wolf)))))")


def texts(picture: str, kind: str | None) -> dict[str, tuple[float, float]]:
    """What is written, and where."""
    found = ET.fromstring(picture).iter(f"{SVG}text")
    return {
        element.text or "": (float(element.attrib["x"]), float(element.attrib["y"]))
        for element in found
        if element.get("class") == kind
    }


def test_words_stand_on_a_line_below_their_tags() -> None:
    picture = draw_trees([TREE])
    words, tags = texts(picture, None), texts(picture, "tag")
    assert list(words) == list(TREE.words)
    assert list(tags) == list(TREE.tags)
    assert len({y for _, y in words.values()}) == 1
    xs = [x for x, _ in words.values()]
    assert xs == sorted(xs) == [x for x, _ in tags.values()]
    columns = zip(pairwise(xs), pairwise(TREE.words), strict=True)
    assert all(after - before > 4 * (len(a) + len(b)) for (before, after), (a, b) in columns)


def test_constituents_stand_above_the_middle_of_their_children_and_are_joined_to_them() -> None:
    picture = draw_trees([TREE])
    labels, tags = texts(picture, "label"), texts(picture, "tag")
    # The inner NP, which is written last.
    assert labels["NP"][0] == pytest.approx((tags["DT"][0] + tags["NN"][0]) / 2, abs=0.01)
    assert labels["VP"][0] == pytest.approx((tags["VBZ"][0] + labels["NP"][0]) / 2, abs=0.01)
    heights = [labels[label][1] for label in ("TOP", "S", "VP", "NP")]
    assert heights == sorted(heights)
    [path] = ET.fromstring(picture).iter(f"{SVG}path")
    assert path.attrib["d"].count("M") == len(TREE.constituents) - 1 + len(TREE.words)


def test_trees_stand_below_each_other_and_normalised_tags_are_not_written() -> None:
    one = tree_of("(TOP (S (XX Yes)))")
    picture = ET.fromstring(draw_trees([one, one, TREE]))
    places = [float(group.attrib["transform"].split()[1][:-1]) for group in picture.iter(f"{SVG}g")]
    assert places[0] == 0
    assert places[1] > 0
    assert places[2] == pytest.approx(2 * places[1])
    assert [title.text for title in picture.iter(f"{SVG}title")] == ["Yes", "Yes", " ".join(TREE.words)]
    assert "XX" not in draw_trees([one])
    assert ET.fromstring(draw_trees([])).attrib["width"] == "0"


def test_whatever_words_are_they_are_text_only() -> None:
    words = ("<script>alert(1)</script>", "&amp;", "\x00\x1b]", "\ufffe", "日本語", "é", "]]>", '"')
    tree = Tree(words, ("NN",) * len(words), (Constituent("TOP", 0, len(words)),))
    picture = draw_trees([tree])
    found = list(texts(picture, None))
    assert found == [*words[:2], "\ufffd\ufffd]", "\ufffd", *words[4:]]
    assert {element.tag.removeprefix(SVG) for element in ET.fromstring(picture).iter()} == {
        *("svg", "style", "g", "title", "path", "text")
    }
    assert "http" not in picture.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_a_tree_ten_thousand_deep_is_drawn() -> None:
    constituents = tuple(Constituent("NP" if n else "TOP", 0, 1) for n in range(10_000))
    assert draw_trees([Tree(("x",), ("NN",), constituents)]).count("<text") == 10_002
