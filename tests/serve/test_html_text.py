"""The texts of HTML documents."""

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.serve.html_text import HTML, XML, HtmlText, xml_fault


def upper(document: str) -> str:
    """The document with its texts in upper case."""
    found = HtmlText(document)
    return found.with_translations([text.upper() for text in found.texts])


@pytest.mark.parametrize(
    ("document", "translated"),
    [
        ("plain", "PLAIN"),
        ("", ""),
        ("<p>a dog</p>", "<p>A DOG</p>"),
        ("<p>a <b>big</b> dog</p>", "<p>A <b>BIG</b> DOG</p>"),
        ("<A Href=\"x>y\" title='<b>'>link</A>", "<A Href=\"x>y\" title='<b>'>LINK</A>"),
        ("a &lt; b &amp; c&nbsp;", "A &lt; B &amp; C&nbsp;"),
        ("AT&T &copy; &#233;", "AT&amp;T © É"),
        ("1 < 2 <3", "1 < 2 <3"),
        ("I <3 you, I &lt;3 you, I &#60;3 you", "I <3 YOU, I &lt;3 YOU, I &#60;3 YOU"),
        ("a <= b <- c <é &lt;b&gt; e <", "A <= B <- C &lt;É &lt;B&gt; E <"),
        ("one<br>two<br/>three", "ONE<br>TWO<br/>THREE"),
        ("\n  <p>\n  a\n  dog </p>\n", "\n  <p>\n  A DOG </p>\n"),
        ("<pre>a\n dog</pre>a\ndog", "<pre>A\n DOG</pre>A DOG"),
        ("<!-- no --><!DOCTYPE html>yes", "<!-- no --><!DOCTYPE html>YES"),
        ("<!-->yes<!---->yes", "<!-->YES<!---->YES"),
        ("a<script>if (a < b) '<p>no</p>'</SCRIPT >b", "A<script>if (a < b) '<p>no</p>'</SCRIPT >B"),
        ("<style>p > b {}</style>a", "<style>p > b {}</style>A"),
        ("<style>p {}", "<style>p {}"),
        ("<p>a <code>x = 1</code></p>", "<p>A <code>x = 1</code></p>"),
        ("<i translate='no'>a <b>b</b></i> c", "<i translate='no'>a <b>b</b></i> C"),
        ("<i translate=NO>a <b translate=yes>b</b></i>", "<i translate=NO>a <b translate=yes>B</b></i>"),
        ('<i class="x notranslate">a</i>b', '<i class="x notranslate">a</i>B'),
        ("<i class='notranslated'>a</i>", "<i class='notranslated'>A</i>"),
        ('<i title="translate=no">a</i>', '<i title="translate=no">A</i>'),
        ("a</p>b</i>c", "A</p>B</i>C"),
        ("<div translate=no><p>a<br></div>b", "<div translate=no><p>a<br></div>B"),
        ("a <b", "A <b"),
        ('a <b title="x>y', 'A <b title="x>y'),
        ("a <!-- b", "A <!-- b"),
        ("a </ b> c </", "A </ b> C </"),
    ],
)
def test_text_is_translated_and_markup_is_kept(document: str, translated: str) -> None:
    assert upper(document) == translated


MARKUP = st.lists(
    st.sampled_from(
        [
            *("<p>", "</p>", "<br/>", "<b class='x'>", "</b>", "<i translate=no>", "</i>", "<!-- c -->"),
            *("<code>", "</code>", "<script>", "</script>", "<img alt='>'>"),
            *("a", " dog ", "&amp;", "&lt;b&gt;", "\n", "é"),
        ]
    )
).map("".join)


@given(MARKUP)
def test_a_document_whose_texts_stay_is_the_same_but_for_white_space(document: str) -> None:
    found = HtmlText(document)
    assert found.with_translations(found.texts).split() == document.split()


class Outline(HTMLParser):
    """What the standard library finds: tags, and texts without white space."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[str] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_entityref(self, name: str) -> None:
        self.text += f"&{name};"


@given(MARKUP)
def test_another_parser_finds_the_same_tags_and_text_in_the_result(document: str) -> None:
    before, after = Outline(document), Outline(upper(document))
    assert after.tags == before.tags
    assert html.unescape(after.text).upper().split() == html.unescape(before.text).upper().split()


@given(st.text(alphabet="<>/!-='\" \nabp&;"))
def test_any_string_is_a_document(document: str) -> None:
    found = HtmlText(document)
    assert len(found.texts) == len(HtmlText(upper(document)).texts)


@given(st.text(min_size=1))
def test_translations_cannot_add_markup(translation: str) -> None:
    assert Outline(HtmlText("<p>a</p>").with_translations([translation])).tags == ["p []", "/p"]


@pytest.mark.parametrize("part", ["<a ", "<!--", "<a/", "<a b=", '<a b="', "<!", "</", "<?"])
def test_a_tag_that_is_not_closed_reaches_to_the_end(part: str) -> None:
    found = HtmlText(part * 1_000)  # only one is read: the time does not grow with the square of the length
    assert found.texts == []
    assert found.with_translations([]) == part * 1_000


def test_more_elements_than_browsers_nest_do_not_change_the_result() -> None:
    document = "<a>" * 2_000 + "x" + "</b>" * 2_000 + "<script>y</script>"
    assert upper(document) == document.replace("x", "X")


def test_names_of_elements_mean_nothing_in_xml() -> None:
    document = "<a>x &amp; y<link>z</link><time>1\n2</time><script><b/>q</script><br>n</br></a>"
    found = HtmlText(document, XML)
    assert found.texts == ["x & y", "z", "1\n2", "q", "n"]
    assert found.with_translations(found.texts) == document


def test_xml_keeps_sections_comments_and_named_elements() -> None:
    document = "<a><![CDATA[x > y]]>b<!-- c > d --><Keep>e<f>g</f></Keep><keep/>h</a>"
    found = HtmlText(document, XML.without(["keep"]))
    assert found.texts == ["b", "h"]
    assert found.with_translations(["B", "H"]) == document.replace(">b", ">B").replace(">h", ">H")
    assert HtmlText("<p>a <q>b</q></p>", HTML.without(["q"])).texts == ["a"]


def test_xml_has_no_names_for_characters_of_html() -> None:
    assert HtmlText("<a>x&#160;y</a>", XML).with_translations(["x\xa0<y"]) == "<a>x\xa0&lt;y</a>"


@given(st.sampled_from(["<3", "<", "< ", "<=", "&lt;", "<<", "<é", "<&amp;", "<_"]), st.text())
def test_a_sign_that_is_kept_makes_no_tag_of_the_translation_after_it(sign: str, translation: str) -> None:
    found = HtmlText(f"{sign}é")
    assert Outline(found.with_translations([translation] * len(found.texts))).tags == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("I <3 you", "line 1, column 3: not well-formed (invalid token)"),
        ("a & b", "line 1, column 3: not well-formed (invalid token)"),
        ("<a>\n\n AT&T</a>", "line 3, column 4: not well-formed (invalid token)"),
        ("<?xml version='1.0'?>\n<a b=c/>", "line 2, column 1: not well-formed (invalid token)"),
        ("a \x0b", "line 1, column 3: not well-formed (invalid token)"),
        ("a&nbsp;b", "line 1, column 2: undefined entity"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "line 1, column 1: declarations are not accepted"),
        ("a<!DOCTYPE b>", "line 1, column 2: declarations are not accepted"),
        ("<a b='1' b='2'/>", "line 1, column 1: duplicate attribute"),
        ("<a><b></a></b>", "line 1, column 4: <b> is not closed"),
        ("a</b>", "line 1, column 2: mismatched tag"),
        ("</content><content>", "line 1, column 11: junk after document element"),
        ("é <b>not\n closed", "line 1, column 3: <b> is not closed"),
        ("a\n<b>b</b", "line 2, column 5: </b is not closed"),
        ("a <", "line 1, column 3: not well-formed (invalid token)"),
        ("a <!-- b", "line 1, column 3: unclosed token"),
        ("a <![CDATA[b", "line 1, column 3: <![CDATA[ is not closed"),
        *[
            (text, None)
            for text in (
                "",
                "plain > text",
                "<b>a</b> and <x:c d='1'/>",
                "a &amp; &#60;3",
                "\ufeff<?xml version='1.0' encoding='latin-1'?>\n<!DOCTYPE a PUBLIC '-' 'b'>\n<a>é</a>",
                "<!-- c --><a><![CDATA[<3 & 4]]></a><?pi d?>",
            )
        ],
    ],
)
def test_the_place_of_what_is_not_xml_is_told(text: str, fault: str | None) -> None:
    assert xml_fault(text) == fault
