"""The formats of files that can be translated, by the suffixes of their names."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allyouneed.errors import UsageError
from allyouneed.files.archives import DOCX, EPUB, ODF, PPTX, XLSX
from allyouneed.files.bilingual import tmx, xliff
from allyouneed.files.strings import apple_strings, gettext, json_strings, yaml_strings
from allyouneed.files.subtitles import subrip, webvtt
from allyouneed.files.texts import android, plain_text, web_page, xml
from allyouneed.files.translating import Translate


class FileFormat(NamedTuple):
    """A format."""

    translated: Callable[[bytes, Translate], bytes]
    """Translates the content of a file."""
    media_type: str
    has_placeholders: bool = False
    """Whether its texts are those of programs, with placeholders in them."""


def _markdown(content: bytes, translate: Translate) -> bytes:
    from allyouneed.files.markdown import markdown  # whose library takes a while

    return markdown(content, translate)


def _xml(content: bytes, translate: Translate) -> bytes:
    return (android if b"<resources" in content[:4_096] else xml)(content, translate)


_OFFICE, _OPEN = "application/vnd.openxmlformats-officedocument", "application/vnd.oasis.opendocument"
_WEB_PAGE: Final = FileFormat(web_page, "text/html")
_XLIFF: Final = FileFormat(xliff, "application/xliff+xml", has_placeholders=True)
_GETTEXT: Final = FileFormat(gettext, "text/x-gettext-translation", has_placeholders=True)
_YAML: Final = FileFormat(yaml_strings, "application/yaml", has_placeholders=True)
_JSON: Final = FileFormat(json_strings, "application/json", has_placeholders=True)
_MARKDOWN: Final = FileFormat(_markdown, "text/markdown")
FORMATS: Final[Mapping[str, FileFormat]] = {
    ".txt": FileFormat(plain_text, "text/plain"),
    ".html": _WEB_PAGE,
    ".htm": _WEB_PAGE,
    ".xhtml": _WEB_PAGE,
    ".xml": FileFormat(_xml, "application/xml", has_placeholders=True),
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".srt": FileFormat(subrip, "application/x-subrip"),
    ".vtt": FileFormat(webvtt, "text/vtt"),
    ".docx": FileFormat(DOCX.translated, f"{_OFFICE}.wordprocessingml.document"),
    ".pptx": FileFormat(PPTX.translated, f"{_OFFICE}.presentationml.presentation"),
    ".xlsx": FileFormat(XLSX.translated, f"{_OFFICE}.spreadsheetml.sheet"),
    ".odt": FileFormat(ODF.translated, f"{_OPEN}.text"),
    ".odp": FileFormat(ODF.translated, f"{_OPEN}.presentation"),
    ".ods": FileFormat(ODF.translated, f"{_OPEN}.spreadsheet"),
    ".epub": FileFormat(EPUB.translated, "application/epub+zip"),
    ".po": _GETTEXT,
    ".pot": _GETTEXT,
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".tmx": FileFormat(tmx, "application/x-tmx+xml", has_placeholders=True),
    ".json": _JSON,
    ".arb": _JSON,
    ".yaml": _YAML,
    ".yml": _YAML,
    ".strings": FileFormat(apple_strings, "text/plain", has_placeholders=True),
}
"""Suffix of names, in small letters -> format."""


def format_of(name: str) -> FileFormat:
    """The format of a file by its name; raises UsageError for another."""
    if found := FORMATS.get(suffix := Path(name).suffix.lower()):
        return found
    known = ", ".join(each[1:] for each in FORMATS)
    raise UsageError(f"{name}: files of {suffix or 'no type'} are not translated; give one of {known}")
