"""Files with texts and their translations: XLIFF and translation memories."""

import re
from collections.abc import Iterable
from typing import Final

from allyouneed.errors import DataError, UsageError
from allyouneed.files.elements import Element, elements
from allyouneed.files.translating import (
    XML_ENCODING,
    Place,
    Translate,
    encoded,
    joined,
    replaced,
    well_formed,
)
from allyouneed.language_codes import distance
from allyouneed.markup.dialect import XML, escaped, with_escaped_tags
from allyouneed.markup.document import Document

_CODES: Final = frozenset({"ph", "bpt", "ept", "it", "ut", "x", "bx", "ex", "sc", "ec"})
"""Elements with codes of other formats, which stay as they are."""
_INLINE: Final = XML._replace(has_outline=False, kept=_CODES, silent=_CODES, keeps_lines=True)
_TMX_TYPE: Final = r"<!DOCTYPE\s+tmx\b[^][<>]*>"
_SIDES: Final = frozenset({"source", "seg-source", "target"})
_SEGMENTS: Final = {"trans-unit": _SIDES, "unit": _SIDES, "segment": _SIDES}
_UNITS: Final = {"tu": frozenset({"tuv"}), "tuv": frozenset({"seg"})}
_CDATA: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_OF_FILE: Final = re.compile(
    r"<file(?=\s)(?![^>]*\btarget-language=)(?=[^>]*\bsource-language=)|<xliff(?=\s)(?![^>]*\btrgLang=)(?=[^>]*\bsrcLang=)"
)
_LANGUAGE: Final = re.compile(r"\b(?:xml:)?lang\s*=\s*[\"']([^\"']*)")


def xliff(content: bytes, translate: Translate) -> bytes:
    """Translate the units of an XLIFF file, version 1.2 or 2, that have no target yet.

    Raises:
        DataError: It is no XLIFF.
    """
    text, mark = well_formed(content)
    if "<xliff" not in text:
        raise DataError("no XLIFF: <xliff> is missing; give a file that a translation tool has exported")
    wanted = list[tuple[Element, Element, Element | None]]()
    for segment in elements(text, _SEGMENTS):
        source, target = segment.child("source"), segment.child("target")
        if source and source.content and not segment.is_fixed and not (target and target.content.strip()):
            wanted.append((segment, source, target))
    found = joined(translate, [_inline(source.content) for _, source, _ in wanted])
    places = list[Place]()
    for (segment, source, target), translation in zip(wanted, found, strict=True):
        if target:
            begin = target.start_tag[0].replace("/>", ">")
            places.append((*target.span, f"{begin}{translation}</target>"))
        else:
            line = _line_before(text, source.span[0])
            end = (segment.child("seg-source") or source).span[1]
            places.append((end, end, f"{line}<target>{translation}</target>"))
    language = translate.target_language
    whole = replaced(text, places)
    whole = _OF_FILE.sub(lambda each: each[0] + _names(each[0], language), whole)
    return encoded(whole, mark, XML_ENCODING)


def _names(tag: str, language: str) -> str:
    """The attribute that names the target language."""
    name = "trgLang" if tag == "<xliff" else "target-language"
    return f' {name}="{language}"' if language else ""


def _inline(content: str) -> Document:
    """The content of a segment, whose CDATA sections are text, and whose escaped tags are tags."""
    text = _CDATA.sub(lambda each: escaped(each[1]), content)
    return Document(text, with_escaped_tags(text, _INLINE))


def _line_before(text: str, place: int) -> str:
    """The line feed and the indentation before a place, if nothing else is before it on its line."""
    start = text.rfind("\n", 0, place) + 1
    indent = text[start:place]
    return f"\n{indent}" if start and not indent.strip(" \t") else ""


def tmx(content: bytes, translate: Translate) -> bytes:
    """Add translations to the units of a translation memory that have none in the target language.

    Raises:
        UsageError: The model does not say its languages.
        DataError: It is no TMX.
    """
    text, mark = well_formed(content, _TMX_TYPE)
    source, target = translate.source_language, translate.target_language
    if not (source and target):
        raise UsageError(
            "the languages, which choose the texts of a translation memory, are not known; name them, "
            "or give another file",
            settings=["source_language", "target_language"],
        )
    if "<tmx" not in text:
        raise DataError("no TMX: <tmx> is missing; give a translation memory")
    wanted = list[tuple[Element, Element | None]]()
    for unit in elements(text, _UNITS):
        if unit.name == "tu":
            given, variant = _closest(target, unit.children), _closest(source, unit.children)
            if variant and not (given and given.children[0].content.strip()):
                wanted.append((variant, given))
    found = joined(translate, [_inline(variant.children[0].content) for variant, _ in wanted])
    places = list[Place]()
    for (variant, given), translation in zip(wanted, found, strict=True):
        segment = f"<seg>{translation}</seg>"
        if given:
            places.append((*given.children[0].span, segment))
        else:
            begin, end = variant.span
            line = _line_before(text, begin)
            places.append((end, end, f'{line}<tuv xml:lang="{target}">{segment}</tuv>'))
    return encoded(replaced(text, sorted(places)), mark, XML_ENCODING)


def _closest(language: str, variants: Iterable[Element]) -> Element | None:
    """The variant with a segment in the closest language."""
    apart = list[tuple[int, Element]]()
    for each in variants:
        named = _LANGUAGE.search(each.start_tag["attributes"])
        if each.children and named and (far := distance(language, named[1])) is not None:
            apart.append((far, each))
    return min(apart, key=lambda each: each[0])[1] if apart else None
