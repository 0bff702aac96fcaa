"""Plain texts, web pages, XML and Android's strings."""

import codecs

import pytest
from tests.files.shouting import SEEN, shouted, shouted_text

from allyouneed.errors import DataError, UsageError
from allyouneed.files.formats import format_of


def test_lines_of_a_text_keep_their_white_space_and_ends() -> None:
    assert shouted_text("a.txt", "  A dog. \r\n\r\n\tTwo\nlast") == "  A DOG. \r\n\r\n\tTWO\nLAST"
    assert SEEN == ["A dog.", "Two", "last"]


def test_the_mark_of_an_encoding_stays() -> None:
    assert shouted("a.txt", codecs.BOM_UTF8 + b"a") == codecs.BOM_UTF8 + b"A"


def test_attributes_of_a_page_that_are_shown_are_translated() -> None:
    page = '<title>One</title><p title="A &amp; b" class="x">A <img alt="cat" src="c.png"> <b>dog</b>.</p>'
    found = shouted_text("a.html", page)
    assert found == (
        '<title>ONE</title><p title="A &amp; B" class="x">A <img alt="CAT" src="c.png"> <b>DOG</b>.</p>'
    )


def test_strings_of_an_app_keep_their_escapes() -> None:
    content = """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- stays -->
    <string name="a">It\\'s a <b>dog</b>,\\nhere &amp; <xliff:g id="n">%1$s</xliff:g></string>
    <string name="b" translatable="false">No</string>
    <string-array name="c"><item>one cat</item></string-array>
    <plurals name="p"><item quantity="one">\\@one</item></plurals>
</resources>
"""
    expected = content.replace("It\\'s a <b>dog", "IT\\'S A <b>DOG").replace("here", "HERE")
    assert shouted_text("strings.xml", content) == expected.replace("one cat", "ONE CAT").replace(
        "\\@one", "\\@ONE"
    )


def test_other_xml_is_translated_by_its_outline() -> None:
    content = "<book><title>A dog</title><para>A <em>big</em> dog.</para></book>"
    assert shouted_text("a.xml", content) == (
        "<book><title>A DOG</title><para>A <em>BIG</em> DOG.</para></book>"
    )


def test_what_is_not_utf_8_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match="line 2: byte 4 is not UTF-8"):
        shouted("a.txt", b"ab\n\xe4\n")


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"a.doc: files of .doc are not translated; give one of txt, html"):
        format_of("a.doc")


def test_only_strings_of_an_app_are_translated() -> None:
    content = (
        "<resources><color name='a'>#FFAA00</color><bool name='b'>true</bool>"
        "<string name='c'>@string/b</string><string name='d' translatable='false'>no</string>"
        "<style name='e'><item name='f'>@color/x</item></style><string name='g'>\\n  Hi \\u0020\\n</string>"
        "<string name='h'>a \\ud83d\\ude00</string></resources>"
    )
    found = shouted_text("strings.xml", content)
    expected = content.replace("Hi ", "HI").replace("a \\ud83d\\ude00", "A 😀")
    assert found.replace("\\u0020", "") == expected.replace("\\u0020", "").replace("\\n  ", "\\n", 1)


def test_pages_that_are_xml_have_no_entities_of_html() -> None:
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><p>A\xa0dog<br/>runs</p></html>'
    assert shouted_text("a.xhtml", page) == page.replace("A\xa0dog", "A\xa0DOG").replace("runs", "RUNS")


def test_arrays_and_styles_are_told_from_strings() -> None:
    content = (
        "<resources><string-array name='a' translatable='false'><item>x</item></string-array>"
        "<string name='b'>one</string><string-array name='c'><item>@string/foo</item></string-array>"
        "<style><item name='windowNoTitle'>true</item></style><!-- <string name='o'>old -->"
        "<string name='d' translatable='false'>secret_key</string></resources>"
    )
    assert shouted_text("strings.xml", content) == content.replace("one", "ONE")


def test_quotation_marks_of_an_app_keep_white_space() -> None:
    content = "<resources><string name='a'>{}</string></resources>"
    for given, expected in {
        '"Two  spaces and <b>bold</b> text"': "TWO \\u0020SPACES AND <b>BOLD</b> TEXT",
        'Say "hi" &quot;here&quot;': "SAY HI HERE",
        "\"Name's <xliff:g>%s's</xliff:g>\"": "NAME\\'S <xliff:g>%s\\'s</xliff:g>",
        '"\'"': "\\'",
        '"@"': "\\@",
        'a <![CDATA["b"]]>': 'A <![CDATA["b"]]>',
        r"Say \"hi\"": r"SAY \"HI\"",
        "A &lt;b>big&lt;/b> dog": "A &lt;b>BIG&lt;/b> DOG",
    }.items():
        assert shouted_text("strings.xml", content.format(given)) == content.format(expected)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_a_text_may_have_any_line_ends(end: str) -> None:
    assert shouted_text("a.txt", f"one{end}two{end}") == f"ONE{end}TWO{end}"
    assert SEEN == ["one", "two"]


@pytest.mark.parametrize(
    "tag", ['<meta charset="{}">', '<meta http-equiv="x" content="text/html; charset={}">']
)
def test_a_page_declares_the_encoding_that_it_gets(tag: str) -> None:
    assert shouted_text("a.html", tag.format("iso-8859-1") + "<p>a&ouml;") == tag.format("UTF-8") + "<p>AÖ"
    assert shouted_text("a.html", tag.format("utf-8") + "<p>a") == tag.format("utf-8") + "<p>A"


def test_readings_are_no_part_of_a_sentence() -> None:
    page = "<p>A <ruby>dog<rp>(</rp><rt>wau</rt><rp>)</rp></ruby> runs.</p>"
    shouted_text("a.html", page)
    assert SEEN == ["A dog runs."]
