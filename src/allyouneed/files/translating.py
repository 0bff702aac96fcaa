"""The translation of the texts of a file, and its bytes as text."""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from allyouneed.errors import DataError
from allyouneed.markup.dialect import xml_fault
from allyouneed.markup.marks import Links, MarkedText
from allyouneed.markup.paragraph import Content

_ESCAPE: Final = re.compile(r"\\(?:[Uu]([\dA-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
# Each finds the encoding that a file declares, and what is before it.
XML_ENCODING: Final = re.compile(r"(\A\s*<\?xml\s[^<>]{1,80}?\sencoding\s*=\s*[\"'])([\w.:-]+)")
PAGE_ENCODING: Final = re.compile(r"(<meta\s[^<>]{0,200}?\bcharset\s*=\s*[\"']?)([\w.:-]+)", re.IGNORECASE)
CATALOGUE_ENCODING: Final = re.compile(
    r'(^"Content-Type:[^"\n]{1,80}?\bcharset=)([\w.:-]+)', re.MULTILINE | re.IGNORECASE
)

Translations = Iterable[tuple[str, Links | None]]
"""Translations with their alignments; None where there is none."""

Place = tuple[int, int, str]
"""Begin and end of a text in a file, and the text."""


@dataclass(frozen=True)
class Translate:
    """Translates the texts of files from one language into another."""

    answer: Callable[[Sequence[MarkedText]], Translations]
    """Returns a translation for each text, in order."""
    source_language: str = ""
    """Code of the language of texts."""
    target_language: str = ""
    """Code of the language of translations."""
    kept: frozenset[str] = frozenset()
    """Texts that stay as they are."""

    def keeping(self, texts: Iterable[str]) -> "Translate":
        """The same with further texts that stay as they are."""
        return replace(self, kept=self.kept | frozenset(texts))


def joined(translate: Translate, contents: Sequence[Content]) -> list[str]:
    """Several documents, or parts of one, translated together."""
    found = iter(translate.answer([text for content in contents for text in content.texts]))
    return [content.translated(found) for content in contents]


def distinct(texts: Iterable[MarkedText]) -> list[MarkedText]:
    """Texts without those that are equal but for their marks; those that need links are preferred."""
    found = dict[str, MarkedText]()
    for text in texts:
        if text.text not in found or text.needs_links:
            found[text.text] = text
    return [*found.values()]


def decoded(content: bytes) -> tuple[str, bytes]:
    """The text of a file in UTF-8, and the mark of the encoding before it, if there is one.

    Raises:
        DataError: It is not UTF-8.
    """
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    try:
        return content[len(mark) :].decode(), mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(mark) + error.start) + 1
        message = f"line {line}: byte {len(mark) + error.start + 1} is not UTF-8; convert the file to it"
        raise DataError(message, label="E-UTF8") from None


def encoded(text: str, mark: bytes, *declarations: re.Pattern[str]) -> bytes:
    """A text and the mark of its encoding as a file, whose `declarations` no longer name another one."""

    def declared(found: re.Match[str]) -> str:
        return found[0] if found[2].lower() in ("utf-8", "utf8") else f"{found[1]}UTF-8"

    for each in declarations:
        text = each.sub(declared, text, count=1)
    return mark + text.encode()


def with_line_feeds(text: str) -> tuple[str, Callable[[str], str]]:
    """A text whose lines end in line feeds, and what gives another text the ends that most lines had."""
    has_returns = text.count("\r\n") * 2 > text.count("\n")
    return text.replace("\r\n", "\n"), lambda new: new.replace("\n", "\r\n") if has_returns else new


def unescaped(text: str) -> str:
    """A text with characters in place of escapes such as `\\n` and `\\u00e9`.

    Half of a surrogate pair becomes the replacement character.
    """
    found = _ESCAPE.sub(
        lambda each: chr(int(each[1], 16)) if each[1] else _ESCAPES.get(each[2], each[2]), text
    )
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def well_formed(content: bytes, declared: str = r"(?!)") -> tuple[str, bytes]:
    """The text of an XML file, and the mark before it; see `decoded`.

    Args:
        content: The file.
        declared: Regular expression of the document type that it may have.

    Raises:
        DataError: It is not UTF-8 or not well-formed, or declares something else.
    """
    text, mark = decoded(content)
    if fault := xml_fault(re.sub(declared, "", text, count=1)):
        raise DataError(f"{fault}; correct it", label="E-XML")
    return text, mark


def replaced(text: str, places: Iterable[Place]) -> str:
    """A text with others in these places, which are in order."""
    parts, end = list[str](), 0
    for begin, its_end, new in places:
        parts += [text[end:begin], new]
        end = its_end
    return "".join([*parts, text[end:]])
