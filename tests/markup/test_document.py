"""The texts of HTML documents."""

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.markup.dialect import HTML, XML, Dialect, xml_fault
from allyouneed.markup.document import Attributes, Document


def translated(found: Document, *translations: str) -> str:
    """The document with translations, by default its texts in upper case; words are in the same order."""
    upper = translations or [text.text.upper() for text in found.texts]
    return found.translated(iter([(text, None) for text in upper]))


def upper(document: str, dialect: Dialect = HTML) -> str:
    """The document with its texts in upper case."""
    return translated(Document(document, dialect))


def texts(document: str, dialect: Dialect = HTML) -> list[str]:
    return [text.text for text in Document(document, dialect).texts]


@pytest.mark.parametrize(
    ("document", "translated"),
    [
        ("plain", "PLAIN"),
        ("", ""),
        ("<p>a dog</p>", "<p>A DOG</p>"),
        ("<p>a <b>big</b> dog</p>", "<p>A <b>BIG</b> DOG</p>"),
        ("<A Href=\"x>y\" title='<b>'>link</A>", "<A Href=\"x>y\" title='<b>'>LINK</A>"),
        ("a &lt; b &amp; c&nbsp;", "A &lt; B &amp; C&nbsp;"),
        ("a <b> big </b> dog", "A <b>BIG</b> DOG"),
        ("\n <b> a</b> \n", "\n  <b>A</b> \n"),
        ("<b>a </b>\n", "<b>A</b> \n"),
        ("<b>a</b> <!-- c --> b", "<b>A</b> <!-- c --> B"),
        ("a <i>b<p>c</i> d", "A <i>B<p>C</i> D"),
        ("<b>a <i>b</b> c</i> d", "<b>A <i>B</b> C</i> D"),
        (
            "<p id=1>a <img><span><u></u><b></b><img>b</span>",
            "<p id=1>A <img><span><u></u><b></b><img>B</span>",
        ),
        (
            "a<sup>1</sup>, b<sub id=x>[<a href='#n'>2</a>]</sub>.",
            "A<sup>1</sup>, B<sub id=x>[<a href='#n'>2</a>]</sub>.",
        ),
        ("go <code>x()</code> now", "GO <code>x()</code> NOW"),
        ("hel<wbr>lo", "HELLO<wbr>"),
        ("<title>a <b>\n</title>", "<title>A &lt;B&gt;\n</title>"),
        ("<textarea>a <b></textarea>", "<textarea>a <b></textarea>"),
        ("<x-note>a</x-note> b", "<x-note>A</x-note> B"),
        ("<p>a<span translate=no><div>b</div></span>c", "<p>A<span translate=no><div>b</div></span>C"),
        ("AT&T &copy; &#233;", "AT&amp;T © É"),
        ("1 < 2 <3", "1 < 2 <3"),
        ("I <3 you, I &lt;3 you, I &#60;3 you", "I <3 YOU, I &lt;3 YOU, I &#60;3 YOU"),
        ("a <= b <- c <é &lt;b&gt; e <", "A <= B <- C &lt;É &lt;B&gt; E <"),
        ("one<br>two<br/>three", "ONE<br>TWO<br/>THREE"),
        ("\n  <p>\n  a\n  dog </p>\n", "\n  <p>\n  A DOG </p>\n"),
        ("<pre>a\n dog</pre>a\ndog", "<pre>a\n dog</pre>A DOG"),
        ("<!-- no --><!DOCTYPE html>yes", "<!-- no --><!DOCTYPE html>YES"),
        ("<!-->yes<!---->yes", "<!-->YESYES<!---->"),
        ("a <script>if (a < b) '<p>no</p>'</SCRIPT >b", "A <script>if (a < b) '<p>no</p>'</SCRIPT >B"),
        ("<style>p > b {}</style>a", "<style>p > b {}</style>A"),
        ("<style>p {}", "<style>p {}"),
        ("<p>a <code>x = 1</code></p>", "<p>A <code>x = 1</code></p>"),
        ("<i translate='no'>a <b>b</b></i> c", "<i translate='no'>a <b>b</b></i> C"),
        ("<i translate=NO>a <b translate=yes>b</b></i>", "<i translate=NO>a <b translate=yes>B</b></i>"),
        ('<i class="x notranslate">a</i>b', '<i class="x notranslate">a</i> B'),
        ("<i class='notranslated'>a</i>", "<i class='notranslated'>A</i>"),
        ('<i title="translate=no">a</i>', '<i title="translate=no">A</i>'),
        ("a</p>b</i>c", "A</p>BC</i>"),
        ("a</p>b</i> c", "A</p>B</i> C"),
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
    found = Document(document)
    same = translated(found, *[text.text for text in found.texts])
    # Tags within a word are beside it now.
    assert sorted("".join(same.split())) == sorted("".join(document.split()))


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
    assert sorted(after.tags) == sorted(before.tags)  # those within a word are beside it now
    of_both = (html.unescape(each.text).upper() for each in (before, after))
    first, second = ("".join(text.split()) for text in of_both)
    assert sorted(first) == sorted(second)
    if "<code>" not in document and "translate=no" not in document:  # which move out of words
        assert first == second


@given(st.text(alphabet="<>/!-='\" \nabp&;"))
def test_any_string_is_a_document(document: str) -> None:
    found = Document(document)
    assert len(found.texts) == len(Document(upper(document)).texts)


@given(st.text(min_size=1))
def test_translations_cannot_add_markup(translation: str) -> None:
    assert Outline(translated(Document("<p>a</p>"), translation)).tags == ["p []", "/p"]


@pytest.mark.parametrize("part", ["<a ", "<!--", "<a/", "<a b=", '<a b="', "<!", "</", "<?"])
def test_a_tag_that_is_not_closed_reaches_to_the_end(part: str) -> None:
    found = Document(part * 1_000)  # only one is read: the time does not grow with the square of the length
    assert found.texts == []
    assert found.translated(iter([])) == part * 1_000


def test_more_elements_than_browsers_nest_do_not_change_the_result() -> None:
    document = "<a>" * 2_000 + "x" + "</b>" * 2_000 + "<script>y</script>"
    assert upper(document) == document.replace("x", "X")


def test_names_of_elements_mean_nothing_in_xml() -> None:
    document = "<a>x &amp; y<link>z</link><time>t\nu</time><script><b/>q</script><br>n</br></a>"
    found = Document(
        document, XML._replace(splitting=frozenset({"link", "time", "script", "br"}), keeps_lines=True)
    )
    assert [text.text for text in found.texts] == ["x & y", "z", "t\nu", "q", "n"]
    assert translated(found, *[text.text for text in found.texts]) == document


def test_xml_keeps_sections_comments_and_named_elements() -> None:
    document = "<a><![CDATA[x > y]]>b<!-- c > d --> <Keep>e<f>g</f></Keep> <keep/>h</a>"
    dialect = XML._replace(kept=frozenset({"keep"}))
    assert texts(document, dialect) == ["b eg h"]
    assert upper(document, dialect) == document.replace(">b", ">B").replace(">h", ">H")


def test_xml_has_no_names_for_characters_of_html() -> None:
    assert translated(Document("<a>x&#160;y</a>", XML), "x\xa0<y") == "<a>x\xa0&lt;y</a>"


@given(st.sampled_from(["<3", "<", "< ", "<=", "&lt;", "<<", "<é", "<&amp;", "<_"]), st.text())
def test_a_sign_that_is_kept_makes_no_tag_of_the_translation_after_it(sign: str, translation: str) -> None:
    found = Document(f"{sign}é")
    assert Outline(translated(found, *[translation] * len(found.texts))).tags == []


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


def test_elements_of_xml_beside_text_are_parts_of_it_and_others_are_not() -> None:
    document = "<doc>\n <t>A <e>b</e></t>\n <p>C<e>d</e> f</p><p><e>g</e></p></doc>"
    assert texts(document, XML) == ["A b", "Cd f", "g"]
    assert texts(document, XML._replace(not_splitting=frozenset({"t"}))) == ["A b", "Cd f", "g"]
    assert texts(document, XML._replace(splitting=frozenset({"e"}))) == ["A", "b", "C", "d", "f", "g"]
    assert texts(document, XML._replace(has_outline=False)) == ["A b Cd fg"]
    assert texts("a<br>b</br>", XML._replace(not_splitting=frozenset({"br"}))) == ["ab"]


def test_attributes_are_translated_where_their_elements_are() -> None:
    document = """<p TITLE='a "b"' id="c">d <img alt="e&amp;f"> <a translate=no><i title="g"></i></a>h"""
    dialect = HTML._replace(attributes=frozenset({"title", "alt"}))
    assert [text.text for text in Attributes(document, dialect).texts] == ['a "b"', "e&f"]
    result = translated(Attributes(document, dialect), "a'b", 'x"')
    assert result == document.replace('a "b"', "a&#x27;b").replace("e&amp;f", "x&quot;")


def test_white_space_is_one_space_for_the_model() -> None:
    assert texts("a\n  <b>\tb</b>\n\n<i> c</i>d") == ["a b cd"]
    assert texts("a\n <b> b</b>", XML._replace(keeps_lines=True)) == ["a\n  b"]


@pytest.mark.parametrize(("code", "shown"), [("x()", "go x() now"), ("x" * 61, "go now"), ("=>", "go now")])
def test_the_model_sees_the_text_of_a_short_element_that_is_kept(code: str, shown: str) -> None:
    assert texts(f"go <code>{code}</code> now") == [shown]
    assert upper(f"go <code>{code}</code> now") == f"GO <code>{code}</code> NOW"


@pytest.mark.parametrize(
    "document",
    ["<b>a " * 20_000, "</b>a " * 20_000, "<b>a</b> " * 20_000, "<p>" * 20_000 + "a", "<b>a<p></b>" * 9_000],
)
def test_elements_without_end_are_there_once_and_take_no_longer(document: str) -> None:
    assert upper(document) == document.replace("a", "A")


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("<p>Foo<sup>1</sup></p><p><sup>2</sup>Bar</p>", ["Foo", "Bar"]),
        ("<td>A<sub>1</sub></td>\n<td>b</td>", ["A", "b"]),
    ],
)
def test_indices_end_with_their_element(document: str, found: list[str]) -> None:
    assert texts(document) == found
    assert upper(document).count("<p>") == document.count("<p>")


@pytest.mark.parametrize(
    "document",
    [
        "<d><überschrift>a dog</überschrift></d>",
        "<_p>a <:b>dog</:b></_p>",
        "<d><?p x>y z?>a dog</d>",
        "<d><!--> a note -->a dog</d>",
        "<d>a <sup /> dog</d>",
    ],
)
def test_names_instructions_and_comments_are_those_of_xml(document: str) -> None:
    assert xml_fault(document) is None
    result = upper(document, XML)
    assert result.lower() == document
    assert ("A" in result, "DOG" in result, xml_fault(result)) == (True, True, None)


def test_half_a_surrogate_pair_is_no_xml() -> None:
    assert xml_fault("<a>\n\ud800</a>") == "line 2, column 1: half a surrogate pair"


def test_attributes_of_elements_that_are_not_translated_stay() -> None:
    dialect = HTML._replace(attributes=frozenset({"alt"}))
    document = '<img translate="no" alt="Acme Dog"><img class="notranslate" alt="x y"><img alt="a dog">'
    assert [text.text for text in Attributes(document, dialect).texts] == ["a dog"]
