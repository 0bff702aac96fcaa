"""Office documents and e-books: ZIP archives of XML files, some of which have texts."""

import contextlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allyouneed.errors import DataError
from allyouneed.files.office_text import CELLS, INLINE_CELLS, SLIDES, WORDS, Names, OfficeText
from allyouneed.files.translating import PAGE_ENCODING, XML_ENCODING, Translate, decoded, encoded, joined
from allyouneed.markup.dialect import HTML, XML, Dialect, escaped, xml_fault
from allyouneed.markup.document import Document
from allyouneed.markup.paragraph import Content

_MOST_BYTES: Final = 1 << 26
"""Size of a part with texts, unpacked."""
_MOST_BYTES_OF_TEXTS: Final = 1 << 27
"""Size of all parts with texts, unpacked; about twenty times as much memory is needed."""
_MOST_BYTES_IN_ALL: Final = 1 << 30
_ODF_SILENT: Final = frozenset(
    {
        *("text:note", "text:tracked-changes", "office:annotation", "office:binary-data", "text:ruby-text"),
        *("math:math", "svg:title", "svg:desc"),
    }
)
"""Elements that stand within sentences and have texts that are no part of them."""
_ODF_KEPT: Final = frozenset(
    {
        *("text:note-citation", "text:sequence", "text:file-name", "text:author-name", "text:page-number"),
        *("text:page-count", "text:date", "text:time", "text:index-entry-span", "number:text"),
        *("number:currency-symbol", "number:fill-character", "office:scripts", "office:forms"),
        *("office:meta", "office:settings"),
    }
)
_ODF: Final = XML._replace(
    has_outline=False,
    splitting=frozenset({"text:p", "text:h", "text:tab", "text:line-break"}),
    kept=_ODF_KEPT | _ODF_SILENT,
    silent=_ODF_SILENT,
)
_NOTE: Final = re.compile(r"(<text:note-body>)(.*?)(?=</text:note-body>)", re.DOTALL)
_XHTML: Final = HTML._replace(has_empty_tags=True, write=escaped)
_CHARACTER: Final = re.compile(r"_x([\dA-Fa-f]{4})_")
"""A character that XML would not keep in an attribute, such as a line break."""
_COLUMN: Final = re.compile(r"<(?:\w+:)?tableColumn\b[^>]*?\sname=\"([^\"]*)\"")
_NAMESPACES: Final = {
    WORDS: "wordprocessingml",
    SLIDES: "drawingml",
    CELLS: "spreadsheetml",
    INLINE_CELLS: "spreadsheetml",
}
_ENCODINGS: Final = XML_ENCODING, PAGE_ENCODING
_MOST_PACKED: Final = 100
"""How many times larger a large part may become."""

_PAGE_TYPE: Final = re.compile(r"<!DOCTYPE\s+(?:html|ncx)\b[^][<>]*>")
_ENTITY: Final = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)[A-Za-z]\w*;")
"""An entity that the document type of a page declares."""
_DAMAGE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, ValueError, OSError),
)
"""Errors of the library for a damaged archive."""

Reader = Callable[[str, Translate], Content]
"""Reads a part; what stands within sentences is translated before."""


class Archive(NamedTuple):
    """A format whose files are archives."""

    readers: Mapping[str, Reader]
    """Regular expression of names -> reader of the parts with such names."""
    macros: str = r"(?i:.*vbaproject\.bin)"
    """Regular expression of names of parts that are programs."""
    finds_kept: bool = False
    """Whether headings of tables stay as they are, which formulas name."""

    def translated(self, content: bytes, translate: Translate) -> bytes:
        """Translate a file.

        Raises:
            DataError: It is no such archive, or damaged, encrypted, too large, or has macros; or a part is
                not well-formed.
        """
        with _whole():
            archive = zipfile.ZipFile(io.BytesIO(content))
        self._require_harmless(archive)
        translate = translate.keeping(_columns(archive)) if self.finds_kept else translate
        parts = {each.filename: self._part(archive, each, translate) for each in archive.infolist()}
        contents = {name: part for name, part in parts.items() if part}
        found = dict(zip(contents, joined(translate, [*contents.values()]), strict=True))
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as new:
            new.comment = archive.comment
            for each in archive.infolist():
                is_new = each.filename in found
                new.writestr(
                    each, encoded(found[each.filename], b"", *_ENCODINGS) if is_new else _read(archive, each)
                )
        return written.getvalue()

    def _part(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, translate: Translate
    ) -> Content | None:
        name, reader = member.filename, self._reader(member)
        if reader is None:
            return None
        try:
            content = _read(archive, member)
            if reader is _CHAPTER and b"<html" not in content:
                return None
            text, _ = decoded(content)
            page = _PAGE_TYPE.sub("", text, count=1)
            if fault := xml_fault(page if page == text else _ENTITY.sub(" ", page)):
                raise DataError(f"{fault}; export the file again", label="E-XML")
            return reader(text, translate)
        except DataError as error:
            raise DataError(f"{name}: {error.messages[0]}", label=error.label) from None

    def _reader(self, member: zipfile.ZipInfo) -> Reader | None:
        fitting = (each for name, each in self.readers.items() if re.fullmatch(name, member.filename))
        return next(fitting, None)

    def _require_harmless(self, archive: zipfile.ZipFile) -> None:
        members = archive.infolist()
        if any(each.flag_bits & 1 for each in members):
            raise DataError("encrypted; save it without a password")
        if found := next((each for each in members if re.fullmatch(self.macros, each.filename)), None):
            raise DataError(f"has macros ({found.filename}); save it without them")
        of_texts = [*filter(self._reader, members)]
        _require_size("the file", members, _MOST_BYTES_IN_ALL)
        _require_size("its texts", of_texts, _MOST_BYTES_OF_TEXTS)
        for each in members:
            if each.file_size > _MOST_BYTES and (
                self._reader(each) or each.file_size > _MOST_PACKED * each.compress_size
            ):
                _require_size(each.filename, [each], _MOST_BYTES)


def _require_size(what: str, members: Sequence[zipfile.ZipInfo], most: int) -> None:
    if sum(each.file_size for each in members) > most:
        raise DataError(f"{what}: more than {most >> 20:,} MiB when unpacked; divide it", label="E-TOO-LARGE")


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Raise a DataError for a damaged archive."""
    try:
        yield
    except _DAMAGE as error:
        raise DataError(f"no whole archive ({error}); export the file again") from None


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with _whole():
        return archive.read(member)


def _columns(archive: zipfile.ZipFile) -> frozenset[str]:
    """The names of the columns of tables, which must be the texts of their cells."""
    tables = (each for each in archive.infolist() if re.fullmatch(r"xl/tables/[^/]*\.xml", each.filename))
    found = (name for each in tables for name in _COLUMN.findall(decoded(_read(archive, each))[0]))
    return frozenset(
        _CHARACTER.sub(lambda each: chr(int(each[1], 16)), XML.read(name)).strip() for name in found
    )


def _office(names: Names) -> Reader:
    declared = re.compile(rf'\sxmlns(?::(\w+))?="[^"]*/{_NAMESPACES[names]}(?:/\d+)?/main"')
    prefix = names.text.rpartition(":")[0]

    def read(part: str, translate: Translate) -> Content:
        if (found := declared.findall(part)) and prefix not in found:
            raise DataError(f"its elements begin with {found[0]}; save it again with an office program")
        return OfficeText(names, translate.kept).read(part)

    return read


def _document(dialect: Dialect) -> Reader:
    return lambda part, _: Document(part, dialect)


def _open_document(part: str, translate: Translate) -> Content:
    """A part of an OpenDocument file; the bodies of notes, which stand within sentences, are translated."""
    notes = iter(joined(translate, [Document(note[2], _ODF) for note in _NOTE.finditer(part)]))
    return Document(_NOTE.sub(lambda note: note[1] + next(notes), part), _ODF)


_DRAWINGS: Final = {r"[a-z]+/(?:charts/chart|diagrams/(?:data|drawing))\d*\.xml": _office(SLIDES)}
DOCX: Final = Archive(
    {r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml": _office(WORDS), **_DRAWINGS}
)
PPTX: Final = Archive({r"ppt/(?:slides|notesSlides)/\w+\.xml": _office(SLIDES), **_DRAWINGS})
XLSX: Final = Archive(
    {
        r"xl/sharedStrings\.xml": _office(CELLS),
        r"xl/worksheets/sheet\d+\.xml": _office(INLINE_CELLS),
        **_DRAWINGS,
    },
    finds_kept=True,
)
ODF: Final = Archive({r"content\.xml|styles\.xml": _open_document}, macros=r"(?:Basic|Scripts)/.+")
_CHAPTER: Final = _document(_XHTML)
"""Reads a file of a book that may be a chapter, by its name."""
EPUB: Final = Archive(
    {
        r".*\.x?html?": _document(_XHTML),
        r".*\.ncx": _document(XML),
        r"(?!META-INF/).*\.xml": _CHAPTER,
    },
    macros=r"(?!)",
)
