"""Files with texts and their translations: XLIFF and translation memories."""

import re
from typing import Final

from allyouneed.errors import DataError, UsageError
from allyouneed.files.translating import Place, Translate, joined, replaced, well_formed
from allyouneed.language_codes import distance
from allyouneed.markup.dialect import XML, escaped
from allyouneed.markup.document import Document

_CODES: Final = frozenset({"ph", "bpt", "ept", "it", "ut", "x", "bx", "ex", "sc", "ec"})
"""Elements with codes of other formats, which stay as they are."""
_INLINE: Final = XML._replace(has_outline=False, kept=_CODES, silent=_CODES, keeps_lines=True)
_TMX_TYPE: Final = r"<!DOCTYPE\s+tmx\b[^][<>]*>"
_SEGMENT: Final = re.compile(
    r"<source\b[^>]*(?<!/)>(?P<source>.*?)</source>"
    r"(?:(?:\s|<!--.*?-->|<seg-source\b[^>]*>.*?</seg-source>)*(?P<target><target\b[^>]*?"
    r"(?:/>|>(?P<given>.*?)</target>)))?",
    re.DOTALL,
)
_FIXED: Final = re.compile(
    r"<(alt-trans|mtc:matches|notes?)\b[^>]*(?<!/)>.*?</\1>"
    r"|<(trans-unit|unit|group|file)\b[^>]*\btranslate\s*=\s*[\"']no[\"'][^>]*>.*?</\2>",
    re.DOTALL,
)
"""Parts of a file whose segments are no texts to translate."""
_CDATA: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_OF_FILE: Final = re.compile(
    r"<file(?=\s)(?![^>]*\btarget-language=)(?=[^>]*\bsource-language=)|<xliff(?=\s)(?![^>]*\btrgLang=)(?=[^>]*\bsrcLang=)"
)
_UNIT: Final = re.compile(r"<tu\b[^>]*>.*?</tu>", re.DOTALL)
_VARIANT: Final = re.compile(
    r"<tuv\b[^>]*?\b(?:xml:)?lang=[\"'](?P<language>[^\"']*)[\"'][^>]*>"
    r".*?(?P<segment><seg\b[^>]*?(?:/>|>(?P<text>.*?)</seg>)).*?</tuv>",
    re.DOTALL,
)


def xliff(content: bytes, translate: Translate) -> bytes:
    """Translate the units of an XLIFF file, version 1.2 or 2, that have no target yet.

    Raises:
        DataError: It is no XLIFF.
    """
    text, mark = well_formed(content)
    if "<xliff" not in text:
        raise DataError("no XLIFF: <xliff> is missing; give a file that a translation tool has exported")
    segments, end = list[re.Match[str]](), 0
    for fixed in [*(each.span() for each in _FIXED.finditer(text)), (len(text), len(text))]:
        segments += [
            each for each in _SEGMENT.finditer(text, end, fixed[0]) if not (each["given"] or "").strip()
        ]
        end = fixed[1]
    found = joined(translate, [_inline(each["source"]) for each in segments])
    places = list[Place]()
    for each, translation in zip(segments, found, strict=True):
        if target := each["target"]:
            begin = target[: target.index(">") + 1].replace("/>", ">")
            places.append((*each.span("target"), f"{begin}{translation}</target>"))
        else:
            source_end = each.end("source") + len("</source>")
            line = _line_before(text, each.start())
            places.append((source_end, source_end, f"{line}<target>{translation}</target>"))
    language = translate.target_language
    whole = replaced(text, places)
    return mark + (_OF_FILE.sub(lambda each: each[0] + _names(each[0], language), whole)).encode()


def _names(tag: str, language: str) -> str:
    """The attribute that names the target language."""
    name = "trgLang" if tag == "<xliff" else "target-language"
    return f' {name}="{language}"' if language else ""


def _inline(content: str) -> Document:
    """The content of a segment, whose CDATA sections are text."""
    return Document(_CDATA.sub(lambda each: escaped(each[1]), content), _INLINE)


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
    wanted = list[tuple[re.Match[str], re.Match[str] | None]]()
    for unit in _UNIT.finditer(text):
        variants = [*_VARIANT.finditer(text, *unit.span())]
        given = _closest(target, variants)
        if not (given and (given["text"] or "").strip()) and (variant := _closest(source, variants)):
            wanted.append((variant, given))
    found = joined(translate, [_inline(each["text"] or "") for each, _ in wanted])
    places = list[Place]()
    for (each, given), translation in zip(wanted, found, strict=True):
        segment = f"<seg>{translation}</seg>"
        if given:
            places.append((*given.span("segment"), segment))
        else:
            line = _line_before(text, each.start())
            places.append((each.end(), each.end(), f'{line}<tuv xml:lang="{target}">{segment}</tuv>'))
    return mark + replaced(text, sorted(places)).encode()


def _closest(language: str, variants: list[re.Match[str]]) -> re.Match[str] | None:
    apart = [(far, each) for each in variants if (far := distance(language, each["language"])) is not None]
    return min(apart, key=lambda each: each[0])[1] if apart else None
