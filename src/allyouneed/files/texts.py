"""Plain texts, web pages, and the strings of Android, which are documents with tags."""

import re
from typing import Final

from allyouneed.files.elements import Element, elements
from allyouneed.files.translating import (
    PAGE_ENCODING,
    XML_ENCODING,
    Translate,
    decoded,
    encoded,
    joined,
    replaced,
    unescaped,
    well_formed,
)
from allyouneed.markup.dialect import HTML, XML, escaped, with_escaped_tags
from allyouneed.markup.document import Attributes, Document
from allyouneed.markup.marks import MarkedText
from allyouneed.markup.paragraph import SPACES, Content, Paragraph

_LINE_END: Final = re.compile(r"(\r\n?|\n)")
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
    return encoded(
        joined(translate, [Document(with_attributes, dialect)])[0], mark, XML_ENCODING, PAGE_ENCODING
    )


def xml(content: bytes, translate: Translate) -> bytes:
    """Translate all text of a document.

    Raises:
        DataError: It is not well-formed, or declares entities.
    """
    text, mark = well_formed(content)
    return encoded(joined(translate, [Document(text, XML)])[0], mark, XML_ENCODING)


def _read_string(raw: str) -> str:
    return unescaped(SPACES.sub(" ", XML.read(raw)))


def _write_string(text: str) -> str:
    if text.isspace():
        return _with_written_spaces(text)
    text = escaped(re.sub(r"[\\'\"]|\A[@?]", r"\\\g<0>", text))
    return re.sub(r"[\n\t]|(?<= ) ", lambda found: _WRITTEN_SPACES[found[0]], text)


def _with_written_spaces(text: str) -> str:
    return re.sub(r"\s", lambda found: _WRITTEN_SPACES.get(found[0], found[0]), text)


def _without_quotes(raw: str) -> str:
    """A string without quotation marks, between which white space and apostrophes stay as they are."""
    parts, is_quoted = list[str](), False
    for part in _PARTS.split(raw):
        if part in ('"', "&quot;"):
            is_quoted = not is_quoted
        elif is_quoted and part[:1] not in "<\\":
            parts.append(_with_written_spaces(re.sub(r"'|\A[@?]", r"\\\g<0>", part)))
        else:
            parts.append(part)
    return "".join(parts)


_ANDROID: Final = XML._replace(
    has_outline=False,
    kept=frozenset({"xliff:g"}),
    keeps_lines=True,
    read=_read_string,
    write=_write_string,
)
_ITEMS: Final = frozenset({"item"})
_RESOURCES: Final = {
    "resources": frozenset({"string", "string-array", "plurals"}),
    "string-array": _ITEMS,
    "plurals": _ITEMS,
}
_PARTS: Final = re.compile(r'(<!\[CDATA\[.*?\]\]>|<[^>]*>|\\.|"|&quot;)', re.DOTALL)
"""Tags, escapes and quotation marks of a string."""
_REFERENCE: Final = re.compile(r"[@?][\w:.]*(?:/[\w.]+)?")


def android(content: bytes, translate: Translate) -> bytes:
    """Translate the strings of an app, but references and those with `translatable="false"`.

    Raises:
        DataError: It is not well-formed, or declares entities.
    """
    text, mark = well_formed(content)
    strings = [
        each
        for resources in elements(text, _RESOURCES)
        if resources.name == "resources"
        for resource in resources.children
        for each in ([resource] if resource.name == "string" else resource.children)
        if not (each.is_fixed or _REFERENCE.fullmatch(each.content.strip()))
    ]
    found = joined(translate, [*map(_android_string, strings)])
    places = ((*each.inner_span, new) for each, new in zip(strings, found, strict=True))
    return encoded(replaced(text, places), mark, XML_ENCODING)


def _android_string(element: Element) -> Document:
    raw = element.content
    core = raw.strip()
    text = raw.replace(core, _without_quotes(core), 1) if core else raw
    return Document(text, with_escaped_tags(text, _ANDROID))
