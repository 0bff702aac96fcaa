"""The cases that Bergamot's translator is tested with: the same documents and alignments, by our rules.

Source: browsermt/bergamot-translator, src/tests/units/html_tests.cpp. Ours differ in three ways: a word
that is marked in part counts as a whole, white space stays where it is, and scripts do not end a sentence.
"""

import re

import pytest

from allyouneed.markup.document import Document
from allyouneed.markup.marks import Links, MarkedText

BANNER = (
    '<p id="1">hello <img id="1.1"><span id="1.2"><u id="1.2.1"></u><b id="1.2.2"></b>'
    '<img id="1.2.3">world</span></p>'
)
DRIVE = "<p>I <b>like</b> to <u>drive</u> this car.</p>"


def copied(text: MarkedText) -> tuple[str, Links]:
    words = [word.span() for word in re.finditer(r"\w+|[^\w\s]", text.text)]
    return text.text, [(*span, *span) for span in words]


def linked(document: str, translation: str, pairs: dict[str, str]) -> str:
    """A document of one text with a translation whose words are aligned with those of the pairs."""
    parsed = Document(document)
    [text] = parsed.texts
    places = [(text.text.index(word), translation.index(of)) for of, word in pairs.items()]
    links = [
        (begin, begin + len(word), first, first + len(of))
        for (begin, first), (of, word) in zip(places, pairs.items(), strict=True)
    ]
    return parsed.translated(iter([(translation, sorted(links))]))


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ("", []),
        ("<p></p>", []),
        (
            '<p data-attr="&quot;&apos;">Some &lt;with&gt; named &amp; entities</p>',
            ["Some <with> named & entities"],
        ),
        ("<p>Space<br>please?</p>", ["Space", "please?"]),
        ("<p>hello <b>world</b></p>\n", ["hello world"]),
        ("<p>hello <b>world &amp; friends!</b></p>", ["hello world & friends!"]),
        ("<p>a <b>b!</b> How <img> <b>c <u>d e?</u></b> Will it?</p>", ["a b! How c d e? Will it?"]),
        ('<p>a <img> <b>b</b> <u>c <a href="#">d</a></u></p>', ["a b c d"]),
        ("hello <br>", ["hello"]),
        ("hello <u></u>", ["hello"]),
        ("<p>hello <br></p>", ["hello"]),
        (BANNER, ["hello world"]),
        ('hello <script>alert("<foo>");</script>world', ["hello world"]),
        ("foo <!-- <ignore> me -->bar", ["foo bar"]),
        ("foo <var><var>nested</var></var> bar", ["foo nested bar"]),
        ("foo <var>&amp;</var> bar", ["foo bar"]),
    ],
)
def test_a_copy_is_the_document(document: str, texts: list[str]) -> None:
    parsed = Document(document)
    assert [text.text for text in parsed.texts] == texts
    assert parsed.translated(map(copied, parsed.texts)) == document


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ("<P><B>Spa</B>ce<BR>please?</p>", ["Space", "please?"]),
        ("un<u>der</u>line", ["underline"]),
        ("<p>hello<img/>world</p>", ["hello world"]),
        ("hel<wbr>lo", ["hello"]),
        ("hel<WBR>lo", ["hello"]),
    ],
)
def test_what_is_within_words_is_read_as_browsers_show_it(document: str, texts: list[str]) -> None:
    assert [text.text for text in Document(document).texts] == texts


def test_tags_follow_the_alignment() -> None:
    assert linked("<p>hello <b>world</b></p>\n", "hallo Welt", {"hallo": "hello", "Welt": "world"}) == (
        "<p>hallo <b>Welt</b></p>\n"
    )
    pairs = {"Ich": "I", "fahre": "drive", "gerne": "like", "dieses": "this", "Auto": "car", ".": "."}
    assert linked(DRIVE, "Ich fahre gerne dieses Auto.", pairs) == (
        "<p>Ich <u>fahre</u> <b>gerne</b> dieses Auto.</p>"
    )


def test_tags_whose_words_are_aligned_with_none_stay_empty_in_their_order() -> None:
    pairs = {"Rád": "I", "to": "this", "auto": "car", ".": "."}
    assert linked(DRIVE, "Rád řídím to auto.", pairs) == "<p>Rád řídím <b></b><u></u>to auto.</p>"
