"""XLIFF and TMX: units without a translation get one, with codes in place."""

import pytest
from tests.files.shouting import SEEN, shouted_text

from allyouneed.errors import DataError

XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en" original="a" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>A <g id="1">dog</g> runs.<x id="2"/> <ph id="3">%s code</ph></source>
    <note>A note stays</note>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target>Fertig</target></trans-unit>
  <trans-unit id="3"><source>Two men</source><target state="new"/></trans-unit>
 </body></file></xliff>
"""


def test_units_of_xliff_get_targets() -> None:
    expected = XLIFF.replace("<file ", '<file target-language="de" ')
    source = '<source>A <g id="1">dog</g> runs.<x id="2"/> <ph id="3">%s code</ph></source>'
    target = '<target>A <g id="1">DOG</g> RUNS.<x id="2"/> <ph id="3">%s code</ph></target>'
    expected = expected.replace(source, f"{source}\n    {target}")
    assert shouted_text("a.xlf", XLIFF) == expected.replace(
        '<target state="new"/>', '<target state="new">TWO MEN</target>'
    )
    assert SEEN == ["A dog runs.", "Two men"]


def test_segments_of_xliff_2_get_targets() -> None:
    content = (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file '
        'id="f"><unit id="1">'
        '<segment><source>A <pc id="1">dog</pc>.</source></segment></unit></file></xliff>'
    )
    found = shouted_text("a.xliff", content)
    assert '</source><target>A <pc id="1">DOG</pc>.</target>' in found
    assert '<xliff trgLang="de" ' in found


def test_units_of_a_memory_get_variants() -> None:
    content = (
        '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header '
        'srclang="en"/><body>\n'
        '<tu>\n  <tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b></bpt>dog<ept i="1">&lt;/b></ept>'
        ".</seg></tuv>\n</tu>\n"
        '<tu><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="de"><seg>Fertig</seg></tuv></tu>'
        "</body></tmx>"
    )
    new = '\n  <tuv xml:lang="de"><seg>A <bpt i="1">&lt;b></bpt>DOG<ept i="1">&lt;/b></ept>.</seg></tuv>'
    assert shouted_text("a.tmx", content) == content.replace("</tuv>\n</tu>", f"</tuv>{new}\n</tu>")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlf", "<tmx></tmx>", "no XLIFF"),
        ("a.tmx", "<xliff></xliff>", "no TMX"),
        ("a.xlf", "<xliff><file></xliff>", "line 1"),
        ("a.xlf", '<!DOCTYPE x [<!ENTITY a "b">]><xliff/>', "declarations are not accepted"),
    ],
)
def test_other_files_are_refused(name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        shouted_text(name, content)


def test_the_target_language_is_written_into_the_tag() -> None:
    content = '<xliff version="1.2"><file original="a b.txt"\n\tsource-language="en"><body/></file></xliff>'
    assert shouted_text("a.xlf", content) == content.replace("<file", '<file target-language="de"')


def test_units_that_are_not_translated_stay() -> None:
    unit = '<trans-unit id="1"{}><source>A dog</source></trans-unit>'
    for attribute in (' translate="no"', " translate='no'"):
        content = f"<xliff><file>{unit.format(attribute)}{unit.format('')}</file></xliff>"
        found = shouted_text("a.xlf", content)
        assert found.count("<target>") == 1
        assert found.index("<target>") > content.index("</trans-unit>")


def test_segments_may_have_cdata_and_comments() -> None:
    content = (
        "<xliff><file><unit><source><![CDATA[A < dog]]></source><!-- x --><target/></unit></file></xliff>"
    )
    assert shouted_text("a.xlf", content) == content.replace("<target/>", "<target>A &lt; DOG</target>")


def test_tags_in_a_text_stay_around_their_words() -> None:
    unit = "<xliff><file><unit><source>{}</source><target/></unit></file></xliff>"
    for tags in (("&lt;b&gt;", "&lt;/b&gt;"), ("&lt;a href=&quot;x&quot;&gt;", "&lt;/a&gt;")):
        content = unit.format("A {}big{} <g>dog</g>".format(*tags))
        target = "A {}BIG{} <g>DOG</g>".format(*tags)
        assert shouted_text("a.xlf", content) == content.replace("<target/>", f"<target>{target}</target>")
        assert SEEN == ["A big dog"]
    for text in ("enter &lt;code&gt; here", "a &lt;b and c&gt; d", "to &lt;a@b.com&gt;", "&lt;/b&gt; a"):
        shouted_text("a.xlf", unit.format(text))
        assert [text.replace("&lt;", "<").replace("&gt;", ">")] == SEEN
    content = unit.format("<![CDATA[A <b>big</b> dog]]>")
    assert "<target>A &lt;b&gt;BIG&lt;/b&gt; DOG</target>" in shouted_text("a.xlf", content)
    assert "<target>1 &lt; 2 &lt;B&gt; A</target>" in shouted_text(
        "a.xlf", unit.format("1 &lt; 2 &lt;b&gt; a")
    )


@pytest.mark.parametrize("empty", ["<seg></seg>", "<seg/>", "<seg> </seg>"])
def test_an_empty_variant_is_filled(empty: str) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>A dog</seg></tuv><tuv xml:lang="de">{}</tuv></tu>'
    content = "<tmx>" + unit.format(empty) + "</tmx>"
    assert shouted_text("a.tmx", content) == "<tmx>" + unit.format("<seg>A DOG</seg>") + "</tmx>"


def test_many_units_with_notes_take_no_longer_each() -> None:
    unit = "<trans-unit><source>A</source><note>x</note></trans-unit>"
    found = shouted_text("a.xlf", f"<xliff>{unit * 5_000}{' ' * 100_000}</xliff>")
    assert found.count("<target>") == 5_000


def test_comments_in_a_unit_take_no_time() -> None:
    unit = f"<unit><source>A</source>{'<!--a-->' * 1_000}<seg-source>A</seg-source><note>x</note></unit>"
    found = shouted_text("a.xlf", f"<xliff><file>{unit * 20}</file></xliff>")
    assert found.count("</seg-source><target>A</target><note>") == 20


def test_a_target_belongs_to_its_unit() -> None:
    unit = "<trans-unit><source>{0}</source><seg-source>{0}</seg-source>{1}</trans-unit>"
    content = f"<xliff><file>{unit.format('one', '')}{unit.format('two', '<target/>')}</file></xliff>"
    expected = unit.format("one", "<target>ONE</target>") + unit.format("two", "<target>TWO</target>")
    assert shouted_text("a.xlf", content) == f"<xliff><file>{expected}</file></xliff>"


def test_groups_within_a_fixed_group_are_fixed() -> None:
    unit = "<trans-unit{}><source>A</source></trans-unit>"
    own = unit.format(" translate='yes'")
    units = f'<group id="1">{unit.format("")}</group>{unit.format("")}{own}'
    content = f'<xliff><file><group translate="no">{units}</group>{unit.format("")}</file></xliff>'
    found = shouted_text("a.xlf", content)
    assert found.count("<target>") == 2
    assert found.index("<target>") > found.index("translate='yes'")


def test_alternatives_of_other_tools_stay() -> None:
    unit = "<trans-unit><source>A</source>{}<alt-trans><source>B</source><target/></alt-trans></trans-unit>"
    content = f"<xliff><file>{unit.format('')}</file></xliff>"
    assert shouted_text("a.xlf", content) == content.replace(
        "</source><alt", "</source><target>A</target><alt"
    )


def test_another_encoding_is_no_longer_declared() -> None:
    unit = "<unit><source>gr&#xf6;&#xdf;e</source></unit>"
    head = '<?xml version="1.0" encoding="ISO-8859-1"?>'
    found = shouted_text("a.xlf", f"{head}\n<xliff><file>{unit}</file></xliff>")
    assert found.startswith('<?xml version="1.0" encoding="UTF-8"?>')
    assert found.endswith("<target>GRÖSSE</target></unit></file></xliff>")
