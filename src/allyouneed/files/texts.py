"""Plain texts, web pages, and the strings of Android, which are documents with tags."""

import re
from typing import Final

from allyouneed.files.translating import Translate, decoded, joined, replaced, unescaped, well_formed
from allyouneed.markup.dialect import HTML, XML, escaped
from allyouneed.markup.document import Attributes, Document
from allyouneed.markup.marks import MarkedText
from allyouneed.markup.paragraph import SPACES, Content, Paragraph

_LINE_END: Final = re.compile(r"(\r?\n)")
_XHTML: Final = re.compile(r"\s*<\?xml\s|[^>]*>\s*<html\b[^>]*\sxmlns=|\s*<html\b[^>]*\sxmlns=")
_SHOWN_ATTRIBUTES: Final = frozenset({"alt", "title", "placeholder"})
_WRITTEN_SPACES: Final = {" ": r"\u0020", "\n": r"\n", "\t": r"\t"}
"""White space that Android would leave out otherwise."""


def plain_text(content: bytes, translate: Translate) -> bytes:
    """Translate a text, each line by itself."""
    text, mark = decoded(content)
    pieces = [*map(_line, _LINE_END.split(text))]
    return mark + joined(translate, [Content(pieces)])[0].encode()


def _line(part: str) -> str | Paragraph:
    """A line, with the white space around it; a string if there is nothing else."""
    if not (core := part.strip()):
        return part
    before, _, after = part.partition(core)
    return Paragraph(before, MarkedText(core, []), after)


def web_page(content: bytes, translate: Translate) -> bytes:
    """Translate a page, and those of its attributes that are shown or read aloud."""
    text, mark = decoded(content)
    dialect = HTML._replace(attributes=_SHOWN_ATTRIBUTES)
    if _XHTML.match(text):
        dialect = dialect._replace(write=escaped, has_empty_tags=True)
    with_attributes = joined(translate, [Attributes(text, dialect)])[0]
    return mark + joined(translate, [Document(with_attributes, dialect)])[0].encode()


def xml(content: bytes, translate: Translate) -> bytes:
    """Translate all text of a document.

    Raises:
        DataError: It is not well-formed, or declares entities.
    """
    text, mark = well_formed(content)
    return mark + joined(translate, [Document(text, XML)])[0].encode()


def _read_string(raw: str) -> str:
    text = SPACES.sub(" ", XML.read(raw))
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        text = text[1:-1]
    return unescaped(text)


def _write_string(text: str) -> str:
    if text.isspace():
        return "".join(_WRITTEN_SPACES.get(each, each) for each in text)
    text = re.sub(r"[\\'\"]|\A[@?]", r"\\\g<0>", text)
    return escaped(text).replace("\n", r"\n").replace("\t", r"\t")


_ANDROID: Final = XML._replace(
    has_outline=False,
    kept=frozenset({"xliff:g"}),
    keeps_lines=True,
    read=_read_string,
    write=_write_string,
)
_RESOURCE: Final = re.compile(r"<(string|string-array|plurals)\b([^>]*)(?<!/)>(.*?)</\1>", re.DOTALL)
_STRING: Final = re.compile(r"(<(?:string|item)\b[^>]*(?<!/)>\s*)(.*?)(\s*</(?:string|item)>)", re.DOTALL)
_FIXED: Final = re.compile(r"\btranslatable\s*=\s*[\"']false[\"']")
_REFERENCE: Final = re.compile(r"[@?][\w:.]*(?:/[\w.]+)?")


def android(content: bytes, translate: Translate) -> bytes:
    """Translate the strings of an app, but references and those with `translatable="false"`.

    Raises:
        DataError: It is not well-formed, or declares entities.
    """
    text, mark = well_formed(content)
    places = [
        each.span(2)
        for resource in _RESOURCE.finditer(text)
        if not _FIXED.search(resource[2])
        for each in _STRING.finditer(text, *resource.span())
        if not _REFERENCE.fullmatch(each[2])
    ]
    found = joined(translate, [Document(text[begin:end], _ANDROID) for begin, end in places])
    return mark + replaced(text, [(*place, new) for place, new in zip(places, found, strict=True)]).encode()
