"""Office documents and books, made by other libraries, translated, and opened by these again.

Promise: Files.
"""

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import docx
import ebooklib
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from ebooklib import epub
from odf.opendocument import OpenDocumentText, load
from odf.style import Style, TextProperties
from odf.text import H, Note, NoteBody, NoteCitation, P, Span
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.worksheet.table import Table
from tests.files.shouting import SEEN, shouted, shuffled

from allyouneed.errors import DataError
from allyouneed.files import archives
from allyouneed.files.formats import format_of
from allyouneed.files.translating import Translate, Translations
from allyouneed.markup.marks import MarkedText


def saved(document: Any) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def report() -> bytes:
    document = docx.Document()
    document.add_heading("A dog runs", 1)
    paragraph = document.add_paragraph("A ")
    paragraph.add_run("young").bold = True
    paragraph.add_run(" man in a ")
    paragraph.add_run("red shirt").italic = True
    paragraph.add_run(" is sitting on a bench.\tTwo dogs run.")
    document.add_paragraph("Two women", style="List Bullet")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "A cat", "42"
    document.sections[0].header.paragraphs[0].text = "A girl & a boy"
    return saved(document)


def part(content: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()


def test_a_document_keeps_formatting_styles_tables_and_headers() -> None:
    document = docx.Document(io.BytesIO(shouted("a.docx", report())))
    assert [each.text for each in document.paragraphs] == [
        "A DOG RUNS",
        "A YOUNG MAN IN A RED SHIRT IS SITTING ON A BENCH.\tTWO DOGS RUN.",
        "TWO WOMEN",
    ]
    assert [each.text for each in document.paragraphs[1].runs if each.bold] == ["YOUNG"]
    assert [each.text for each in document.paragraphs[1].runs if each.italic] == ["RED SHIRT"]
    assert document.paragraphs[2].style is not None
    assert document.paragraphs[2].style.name == "List Bullet"
    assert document.tables[0].cell(0, 0).text == "A CAT"
    assert document.sections[0].header.paragraphs[0].text == "A GIRL & A BOY"
    assert "A young man in a red shirt is sitting on a bench." in SEEN


def test_everything_but_text_is_as_it_was() -> None:
    before, after = report(), shouted("a.docx", report())
    with zipfile.ZipFile(io.BytesIO(before)) as old, zipfile.ZipFile(io.BytesIO(after)) as new:
        assert old.namelist() == new.namelist()
        changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert changed == ["word/document.xml", "word/header1.xml"]


def _with_parts(xml: str) -> bytes:
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:p {nsdecls('w')}>{xml}</w:p>"))
    return saved(document)


def test_links_fields_and_breaks_stay_around_their_words() -> None:
    content = _with_parts(
        '<w:r><w:t xml:space="preserve">See </w:t></w:r><w:hyperlink w:anchor="x"><w:r><w:rPr><w:b/></w:rPr>'
        '<w:t>the house</w:t></w:r></w:hyperlink><w:r><w:t xml:space="preserve"> on page </w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF x</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>12</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t>.</w:t><w:br/><w:t>Next line</w:t></w:r>'
    )
    xml = part(shouted("a.docx", content), "word/document.xml")
    assert SEEN[:2] == ["See the house on page 12.", "Next line"]
    text = re.sub(r"<w:instrText>.*?</w:instrText>", "", xml)
    assert (
        re.sub(r"<[^>]+>", "", text.replace("<w:br/>", "\n")).strip()
        == "SEE THE HOUSE ON PAGE 12.\nNEXT LINE"
    )
    link = re.search(r'<w:hyperlink w:anchor="x">(.*?)</w:hyperlink>', xml)
    assert link
    assert re.sub(r"<[^>]+>", "", link[1]) == "THE HOUSE"
    assert re.search(r'"begin".*PAGEREF.*"separate".*12.*"end"', xml)


def test_a_sentence_that_begins_with_a_link_has_its_own_formatting() -> None:
    content = _with_parts(
        '<w:hyperlink w:anchor="x"><w:r><w:rPr><w:u/></w:rPr><w:t>Our page</w:t></w:r></w:hyperlink>'
        "<w:r><w:rPr><w:b/></w:rPr><w:t> shows two dogs and a cat</w:t></w:r>"
    )

    def answer(texts: Sequence[MarkedText]) -> Translations:
        return [(f"Tom {text.text.strip()}", [(0, 8, 4, 12)]) for text in texts]  # no word is Tom

    written = format_of("a.docx").translated(content, Translate(answer))
    assert "<w:r><w:rPr><w:b/></w:rPr><w:t>Tom " in part(written, "word/document.xml").replace(
        ' xml:space="preserve"', ""
    )


def test_a_text_box_within_a_sentence_is_translated_by_itself() -> None:
    box = "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>A box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
    content = _with_parts(f"<w:r><w:t>A dog</w:t></w:r>{box}<w:r><w:t>runs.</w:t></w:r>")
    assert "<w:txbxContent><w:p><w:r>" in part(shouted("a.docx", content), "word/document.xml")
    assert SEEN[:3] == ["A dog", "A box", "runs."]


def test_deleted_text_and_equations_stay() -> None:
    content = _with_parts(
        '<w:r><w:t xml:space="preserve">A dog </w:t></w:r><w:del w:id="1"><w:r><w:delText>'
        "old</w:delText></w:r></w:del>"
        '<w:ins w:id="2"><w:r><w:t>new</w:t></w:r></w:ins>'
    )
    xml = part(shouted("a.docx", content), "word/document.xml")
    assert "<w:delText>old</w:delText>" in xml
    assert '<w:ins w:id="2"><w:r><w:t xml:space="preserve">NEW</w:t></w:r></w:ins>' in xml


@pytest.mark.parametrize("seed", range(30))
def test_any_alignment_leaves_a_document_whole(seed: int) -> None:
    found = format_of("a.docx").translated(report(), shuffled(seed))
    document = docx.Document(io.BytesIO(found))
    assert sorted(document.paragraphs[1].text.split()) == sorted(
        docx.Document(io.BytesIO(report())).paragraphs[1].text.split()
    )
    assert part(found, "word/document.xml").count("<w:b/>") == 1


def test_slides_keep_their_formatting() -> None:
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "A dog runs"
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for text, is_bold in (("Two ", None), ("big", True), (" dogs run.", None)):
        run = paragraph.add_run()
        run.text, run.font.bold = text, is_bold
    found = pptx.Presentation(io.BytesIO(shouted("a.pptx", saved(slides)))).slides[0]
    assert found.shapes.title.text == "A DOG RUNS"
    runs = found.placeholders[1].text_frame.paragraphs[0].runs
    assert [(run.text, run.font.bold) for run in runs] == [
        ("TWO ", None),
        ("BIG", True),
        (" DOGS RUN.", None),
    ]


def test_cells_are_translated_but_no_columns_that_formulas_name() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"], sheet["B1"], sheet["A2"], sheet["B2"] = "Name", "Color", "A dog runs.", 12.5
    sheet["C3"], sheet["D1"] = "=A2", "two men & a <cat>"
    sheet["E1"] = CellRichText("A ", TextBlock(InlineFont(b=True), "red"), " car")
    sheet.add_table(Table(displayName="T", ref="A1:B2"))
    content = shouted("a.xlsx", saved(book))
    found = openpyxl.load_workbook(io.BytesIO(content), rich_text=True).active
    assert [found["A1"].value, found["B1"].value] == ["Name", "Color"]
    assert [found["A2"].value, found["D1"].value] == ["A DOG RUNS.", "TWO MEN & A <CAT>"]
    assert [found["B2"].value, found["C3"].value] == [12.5, "=A2"]
    assert str(found["E1"].value) == "A RED CAR"
    assert found["E1"].value[1].text == "RED"


def test_shared_strings_are_translated() -> None:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = (
        f'<sst xmlns="{main}"><si><t>A dog</t></si><si><r><t xml:space="preserve">A CAR, </t></r><r>'
        f"<rPr><b/></rPr>"
        "<t>red</t></r><rPh><t>x</t></rPh></si><si><t>42</t></si></sst>"
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", strings)
    found = part(shouted("a.xlsx", content.getvalue()), "xl/sharedStrings.xml")
    assert found == strings.replace("<t>A dog", '<t xml:space="preserve">A DOG').replace(
        "<t>red", '<t xml:space="preserve">RED'
    )


def test_notes_of_an_open_document_stay_within_their_sentence() -> None:
    document = OpenDocumentText()
    bold = Style(name="B", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    document.text.addElement(H(outlinelevel=1, text="A dog runs"))
    paragraph, note, body = P(text="A "), Note(noteclass="footnote"), NoteBody()
    paragraph.addElement(Span(stylename=bold, text="young"))
    paragraph.addText(" man")
    note.addElement(NoteCitation(text="1"))
    body.addElement(P(text="The man is old."))
    note.addElement(body)
    paragraph.addElement(note)
    paragraph.addText(" is sitting.")
    document.text.addElement(paragraph)
    content = shouted("a.odt", saved(document))
    assert "A young man is sitting." in SEEN
    assert "The man is old." in SEEN
    assert load(io.BytesIO(content)).text is not None
    xml = part(content, "content.xml")
    assert '<text:span text:style-name="B">YOUNG</text:span> MAN<text:note' in xml
    assert "<text:p>THE MAN IS OLD.</text:p>" in xml
    assert zipfile.ZipFile(io.BytesIO(content)).infolist()[0].compress_type == zipfile.ZIP_STORED


def test_pages_of_a_book_are_translated() -> None:
    book = epub.EpubBook()
    book.set_title("Book")
    chapter = epub.EpubHtml(title="One", file_name="c.xhtml", lang="en")
    chapter.content = "<h1>A dog</h1><p>A <b>young</b> man runs.<br/>Two dogs&nbsp;run.</p><pre>code</pre>"
    for item in (chapter, epub.EpubNcx(), epub.EpubNav()):
        book.add_item(item)
    book.toc, book.spine = (chapter,), ["nav", chapter]
    content = io.BytesIO()
    epub.write_epub(content, book)
    found = epub.read_epub(io.BytesIO(shouted("a.epub", content.getvalue())))
    text = found.get_item_with_href("c.xhtml").get_content().decode()
    assert "<p>A <b>YOUNG</b> MAN RUNS.<br/>TWO DOGS" in text
    assert "<pre>code</pre>" in text
    assert [each.title for each in found.toc] == ["ONE"]
    assert len([*found.get_items_of_type(ebooklib.ITEM_DOCUMENT)]) == 2


def _archive(fill: Callable[[zipfile.ZipFile], None]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        fill(archive)
    return content.getvalue()


def _document(xml: str) -> bytes:
    return _archive(lambda archive: archive.writestr("word/document.xml", xml))


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><w:document><w:p/></w:document>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no whole archive"),
        (b"PK\x03\x04 no archive", "no whole archive"),
        (report()[:-500], "no whole archive"),
        (_archive(lambda archive: archive.writestr("word/vbaProject.bin", b"x")), "has macros"),
        (
            _archive(lambda archive: archive.writestr("word/document.xml", b"\0" * (1 << 27))),
            "more than 64 MiB",
        ),
        (_archive(lambda archive: archive.writestr("word/x.bin", b"\0" * (1 << 27))), "more than 64 MiB"),
        (_document(BOMB), "word/document.xml: line 1, column 1: declarations are not accepted"),
        (_document("<w:document><w:p></w:document>"), "word/document.xml: line 1"),
        (_document("<w:p><w:r>" * 60 + "</w:r></w:p>" * 60), "more than 16 texts within each other"),
        (
            _document("<w:p>" + "<w:sdt>" * 5_000 + "<w:t>A dog</w:t>" + "</w:sdt>" * 5_000 + "</w:p>"),
            "word/document.xml: more than 32 elements within each other in a sentence",
        ),
        (
            _document('<x:p xmlns:x="http://schemas.openxmlformats.org/wordprocessingml/2006/main"/>'),
            "its elements begin with x",
        ),
    ],
)
def test_damaged_and_hostile_archives_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        shouted("a.docx", content)


def test_an_error_of_the_translator_is_no_damage_of_the_archive() -> None:
    def fail(texts: Sequence[MarkedText]) -> Translations:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        format_of("a.docx").translated(report(), Translate(fail))


def test_an_encrypted_archive_is_refused() -> None:
    content = bytearray(_document("<w:p/>"))
    for place in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[place] |= 1
    with pytest.raises(DataError, match="encrypted"):
        shouted("a.docx", bytes(content))


def test_nothing_outside_a_document_is_read() -> None:
    place = 'Target="http://127.0.0.1:9/x" TargetMode="External"'
    rels = f'<Relationships><Relationship Id="r" {place}/></Relationships>'

    def fill(archive: zipfile.ZipFile) -> None:
        archive.writestr("word/document.xml", "<w:p><w:r><w:t>A dog</w:t></w:r></w:p>")
        archive.writestr("word/_rels/document.xml.rels", rels)

    assert part(shouted("a.docx", _archive(fill)), "word/_rels/document.xml.rels") == rels


def test_a_field_without_an_end_loses_no_text() -> None:
    content = _with_parts(
        '<w:r><w:t>Before</w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        "<w:r><w:t>inside</w:t></w:r>"
    )
    text = re.sub(r"<[^>]+>", "", part(shouted("a.docx", content), "word/document.xml"))
    assert text.strip() == "BEFOREinside"


@pytest.mark.parametrize("seed", range(10))
def test_elements_around_runs_stay_around_them(seed: int) -> None:
    content = _with_parts(
        '<w:r><w:t xml:space="preserve">A dog </w:t></w:r>'
        '<w:dir w:val="rtl"><w:r><w:t>runs here</w:t></w:r></w:dir>'
        '<w:customXml w:element="x"><w:r><w:t xml:space="preserve"> and there</w:t></w:r></w:customXml>'
    )
    found = format_of("a.docx").translated(content, shuffled(seed))
    assert docx.Document(io.BytesIO(found)).paragraphs  # is well-formed


def test_headings_of_tables_may_have_line_breaks_and_spaces() -> None:
    names = '<table><tableColumn id="1" name="Net_x000a_price"/><tableColumn name="A "/></table>'
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = f'<sst xmlns="{main}"><si><t>Net\nprice</t></si><si><t xml:space="preserve">A </t></si></sst>'

    def fill(archive: zipfile.ZipFile) -> None:
        archive.writestr("xl/tables/table1.xml", names)
        archive.writestr("xl/sharedStrings.xml", strings)

    assert part(shouted("a.xlsx", _archive(fill)), "xl/sharedStrings.xml") == strings


def test_titles_and_data_of_pictures_are_no_part_of_a_sentence() -> None:
    picture = (
        "<draw:frame><svg:title>A title</svg:title><office:binary-data>QUJD</office:binary-data></draw:frame>"
    )
    content = _archive(
        lambda archive: archive.writestr(
            "content.xml",
            '<c xmlns:text="t" xmlns:draw="d" xmlns:svg="s" xmlns:office="o">'
            f"<text:p>A dog {picture}runs.</text:p></c>",
        )
    )
    assert picture in part(shouted("a.odt", content), "content.xml").replace("> <", "><")
    assert SEEN == ["A dog runs."]


def test_chapters_with_declared_entities_are_read_and_get_none() -> None:
    doctype = (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">'
    )
    page = doctype + '<html xmlns="http://www.w3.org/1999/xhtml"><p>A&nbsp;dog</p></html>'
    content = _archive(lambda archive: archive.writestr("c.xhtml", page))
    assert "<p>A\xa0DOG</p>" in part(shouted("a.epub", content), "c.xhtml")


def test_macros_of_open_documents_are_refused() -> None:
    scripts = _archive(lambda archive: archive.writestr("Scripts/a.js", "x"))
    assert part(shouted("a.epub", scripts), "Scripts/a.js") == "x"
    with pytest.raises(DataError, match="has macros"):
        shouted("a.odt", _archive(lambda archive: archive.writestr("Basic/Standard/Module1.xml", "<x/>")))


def test_texts_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_MOST_BYTES_OF_TEXTS", 1 << 20)

    def fill(archive: zipfile.ZipFile) -> None:
        for number in range(5):
            archive.writestr(f"word/header{number}.xml", b"\0" * (1 << 18))

    with pytest.raises(DataError, match="its texts: more than 1 MiB when unpacked; divide it"):
        shouted("a.docx", _archive(fill))


def test_parts_may_have_other_names() -> None:
    xml = "<w:p><w:r><w:t>A dog</w:t></w:r></w:p>"
    content = _archive(lambda archive: archive.writestr("word/document2.xml", xml))
    assert "A DOG" in part(shouted("a.docx", content), "word/document2.xml")

    def fill(archive: zipfile.ZipFile) -> None:
        archive.writestr("META-INF/container.xml", "<html>no</html>")
        archive.writestr("c.xml", '<?xml version="1.0" encoding="us-ascii"?><html><p>&#228;</p></html>')
        archive.writestr("d.xml", b"\xff<data>no</data>")

    found = shouted("a.epub", _archive(fill))
    assert part(found, "c.xml") == '<?xml version="1.0" encoding="UTF-8"?><html><p>Ä</p></html>'
    assert zipfile.ZipFile(io.BytesIO(found)).read("d.xml") == b"\xff<data>no</data>"
    assert "no" in part(found, "META-INF/container.xml")


def test_returns_of_excel_are_no_words() -> None:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = f'<sst xmlns="{main}"><si><t>One_x000D_\ntwo</t></si></sst>'
    content = _archive(lambda archive: archive.writestr("xl/sharedStrings.xml", strings))
    shouted("a.xlsx", content)
    assert SEEN == ["One\ntwo"]
