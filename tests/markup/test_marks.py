"""The places of marks in translations, whatever the alignment is."""

import random
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.markup.document import Document
from allyouneed.markup.marks import Links, Mark, MarkedText, composed

WORDS = ["Ein", "großer", "Hund,", "der", "nie", "bellt,", "sah", "die", "Katze", "!", "猫"]


def spans(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]


def links(source: str, target: str, pairs: str) -> Links:
    """The links of words, such as "0-1 1-0", as those of characters."""
    numbers = (map(int, pair.split("-")) for pair in pairs.split())
    return [(*spans(source)[i], *spans(target)[j]) for i, j in numbers]


def translated(document: str, target: str, pairs: str | None) -> str:
    found = Document(document)
    [text] = found.texts
    return found.translated(iter([(target, None if pairs is None else links(text.text, target, pairs))]))


@pytest.mark.parametrize(
    ("document", "target", "pairs", "expected"),
    [
        ("a <b>red</b> car", "une voiture rouge", "0-0 1-2 2-1", "une voiture <b>rouge</b>"),
        ("<i>a <b>red</b></i> car", "voiture rouge", "0-1 1-1 2-0", "voiture <i><b>rouge</b></i>"),
        (
            "I <b>switch</b> it <b>on</b>.",
            "Ich mache es an.",
            "0-0 1-1 2-2 3-3 4-4",
            "Ich <b>mache</b> es <b>an</b>.",
        ),
        ("I <b>turn off</b> it.", "Ich mache es aus.", "0-0 1-1 2-3 3-2 4-4", "Ich <b>mache</b> es aus."),
        ("the <i>dog</i>, who", "der Hund, der", "0-0 1-1 2-2 3-3", "der <i>Hund</i>, der"),
        ("<b>The dog</b> barks", "Es bellt der Hund", "0-2 1-3 2-1", "Es bellt <b>der Hund</b>"),
        ("a <sup>b1</sup> b", "b a 1", "0-1 1-2 2-0", "b a <sup>1</sup>"),
        ("all <b>of</b> it", "alles", "0-0 1-0 2-0", "<b>alles</b>"),
        ("a b<img> c", "c b a", "0-2 1-1 2-0", "c b<img> a"),
        ("a <img>b c", "c b a", "0-2 1-1 2-0", "c <img>b a"),
        ("a <img> b c", "c b a", "0-2 1-1 2-0", "c <img> b a"),
        ("see <img> dogs.", "sieht.", "0-0 2-1", "sieht <img>."),
        ("cat of <img>.", "Katze.", "0-0 2-1", "Katze <img>."),
        ("see <img> (dogs)", "(Hunde) sehen", "0-3 1-0 2-1 3-2", "<img> (Hunde) sehen"),
        ("cat of <img> <a></a>, b", "Katze, b", "0-0 2-1 3-2", "Katze <img> <a></a>, b"),
        ("a <code>b</code> c", "C B A", "0-2 1-1 2-0", "C <code>b</code> A"),
        ("see {name} <b>now</b>", "jetzt {name} sehen", "0-4 4-1", "jetzt <b>{name}</b> sehen"),
        ("<b>at</b> http://a.de/b", "http://a.de/b an", "0-2 1-0", "<b>http://a.de/b</b> an"),
        ("<b>whole</b>", "eins zwei", None, "<b>eins zwei</b>"),
        ("<b>a</b> b", "A B", None, "<b>A</b> B"),
        ("<b>a</b> b", "", None, "<b></b>"),
    ],
)
def test_marks_follow_their_words(document: str, target: str, pairs: str | None, expected: str) -> None:
    assert translated(document, target, pairs) == expected


def fragment(draw: random.Random, depth: int = 0) -> str:
    """A well-formed fragment whose tags all differ, with elements that are empty, kept, or full of blanks."""
    parts = []
    for _ in range(draw.randint(1, 4)):
        kind = draw.randint(0, 9)
        number = draw.randint(0, 10**9)
        space = draw.choice(["", " ", " "])
        if kind < 4 or depth > 5:
            parts.append(
                space + draw.choice(["dog", "big", "house,", "the", "&amp;", "A.", "une", "猫"]) + space
            )
        elif kind < 8:
            name = draw.choice(["b", "i", "span", "a"])
            parts.append(f"<{name} id='{number}'>{space}{fragment(draw, depth + 1)}</{name}>{space}")
        else:
            parts.append(
                draw.choice(["<x id='{}'/>", "<b id='{}'></b>", "<code id='{}'>f()</code>"]).format(number)
                + space
            )
    return "".join(parts)


def tags(document: str) -> list[str]:
    return re.findall(r"<[^>]*>", document)


def paths(document: str) -> list[str]:
    """The elements around each element."""
    found: list[str] = []

    def visit(element: ElementTree.Element, path: str) -> None:
        for child in element:
            found.append(f"{path}/{child.get('id')}")
            visit(child, found[-1])

    visit(ElementTree.fromstring(f"<root>{document}</root>"), "")
    return sorted(found)


@pytest.mark.parametrize("seed", range(500))
def test_whatever_the_alignment_every_tag_is_there_once_and_elements_stay_within_each_other(
    seed: int,
) -> None:
    draw = random.Random(seed)
    document = fragment(draw)
    parsed, answers = Document(document), []
    for text in parsed.texts:
        target = " ".join(draw.choices(WORDS, k=draw.randint(0, 12)))
        pairs = [(*a, *b) for a in spans(text.text) for b in spans(target) if draw.random() < 0.2]
        answers.append((target, draw.choice([pairs, pairs, None])))
    result = parsed.translated(iter(answers))
    assert sorted(tags(result)) == sorted(tags(document))
    assert paths(result) == paths(document)


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<img>", "<p>", "a", " ", "b c"])).map("".join)
)
def test_tags_that_do_not_fit_are_there_once_too(document: str) -> None:
    parsed = Document(document)
    answers = [(text.text[::-1].upper(), None) for text in parsed.texts]
    assert sorted(tags(parsed.translated(iter(answers)))) == sorted(tags(document))


def test_text_between_tags_is_escaped_and_tags_are_not() -> None:
    text = MarkedText("a b", [Mark(2, 3, "<b>", "</b>")])
    assert text.translated("x < y", None, lambda part: part.replace("<", "&lt;")) == "x &lt; <b>y</b>"


def test_alignments_are_composed_over_a_third_text() -> None:
    assert composed([(0, 2, 0, 3), (3, 5, 4, 6)], [(0, 3, 5, 9), (4, 6, 0, 4)]) == [
        (0, 2, 5, 9),
        (3, 5, 0, 4),
    ]
    assert composed([(0, 2, 0, 3)], [(3, 4, 0, 1)]) == []


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("<b>a b</b>", False),
        ("<b>a</b> b", True),
        ("<img>a b", False),
        ("a b<img>", False),
        ("a<img> b", True),
        ("a", False),
    ],
)
def test_only_marks_within_a_text_need_an_alignment(text: str, needs: bool) -> None:
    assert Document(text).texts[0].needs_links is needs
