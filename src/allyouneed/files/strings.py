"""Catalogues of the texts of programs: gettext, JSON, ARB, YAML, and Apple's strings."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from allyouneed.data.spans import KINDS, Spans
from allyouneed.data.words import has_letters
from allyouneed.errors import DataError, UsageError
from allyouneed.files.translating import (
    CATALOGUE_ENCODING,
    Place,
    Translate,
    decoded,
    encoded,
    joined,
    replaced,
    unescaped,
    with_line_feeds,
)
from allyouneed.language_codes import spoken_language
from allyouneed.markup.dialect import HTML
from allyouneed.markup.document import Document
from allyouneed.markup.marks import MarkedText
from allyouneed.markup.paragraph import Content, Paragraph

_QUOTED: Final = r'"(?:[^"\\\n]|\\.)*+"'
_LINES: Final = rf"{_QUOTED}(?:[ \t]*\r?\n[ \t]*{_QUOTED})*+"
_UNIT: Final = re.compile(
    rf"^msgid[ \t]+(?P<id>{_LINES})[ \t]*(\r?\n)(?:msgid_plural[ \t]+(?P<plural>{_LINES})[ \t]*\r?\n)?"
    rf"(?P<strings>(?:msgstr(?:\[\d+\])?[ \t]+{_LINES}[ \t]*(?:\r?\n|\Z))+)",
    re.MULTILINE,
)
_STRING: Final = re.compile(rf"^(msgstr(?:\[(\d+)\])?[ \t]+)({_LINES})", re.MULTILINE)
_TEMPLATE: Final = re.compile(
    r'^("Plural-Forms: *)nplurals=INTEGER; plural=EXPRESSION(?=;?\\n")', re.MULTILINE
)
_TWO_FORMS: Final = frozenset(
    {
        *("bg", "ca", "da", "de", "el", "en", "es", "et", "eu", "fi", "gl", "he", "hu", "it", "nb", "nl"),
        *("nn", "no", "sq", "sv"),
    }
)
"""Languages whose plural is right for every number but 1, as templates have room for."""
_OTHER_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[^ntr\"\\]")
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"(\s*:)?|[{}\[\],]')
_YAML_SIGNS: Final = re.compile(r"[,\[\]{}]")
"""Signs that end a text without quotes in a list like `[a, b]`."""
_SEPARATOR: Final = re.compile(r"([\n\t])")
_TAG: Final = re.compile(r"</?[A-Za-z\d][^<>]*>")
_TAG_BEGIN: Final = re.compile(r"<[A-Za-z\d/!?]")
_TAGS: Final = HTML._replace(  # with tags such as `<0>`; entities stay as they are
    markup=re.compile(HTML.markup.pattern.replace("[A-Za-z]", r"[A-Za-z\d]"), HTML.markup.flags),
    has_empty_tags=True,
    keeps_lines=True,
    read=str,
    write=str,
)
_SPANS: Final = Spans(kinds={kind: pattern for kind, pattern in KINDS.items() if kind != "tag"})
_HALF: Final = re.compile("[\ud800-\udfff]")
_LOCALE: Final = re.compile(r'("@@locale"\s*:\s*)"[^"]*"')
_STRINGS_LINE: Final = re.compile(
    r'/\*.*?(?:\*/|\Z)|//[^\n]*|(?:"(?:[^"\\]|\\.)*+"|(?<![\w.-])[\w.-]++)\s*+=\s*+("(?:[^"\\]|\\.)*+")\s*;',
    re.DOTALL,
)


def _unquoted(lines: str) -> str:
    return unescaped("".join(each[1:-1] for each in re.findall(_QUOTED, lines)))


def _quoted(text: str) -> str:
    found = re.sub(r'["\\]', r"\\\g<0>", text).replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return f'"{found}"'


def gettext(content: bytes, translate: Translate) -> bytes:
    """Translate the entries of a PO or POT file that have no translation yet.

    Where a language has several plural forms, all get the translation of the plural, but for the first.
    Entries with rare escapes, such as of a byte by its number, stay as they are.

    Raises:
        DataError: It has no entries.
    """
    text, mark = decoded(content)
    units = [*_UNIT.finditer(text)]
    if not units:
        raise DataError("no entries (msgid and msgstr); give a PO or POT file")
    wanted, sources = list[tuple[int, int, str]](), list[str]()
    for unit in units:
        source, plural = _unquoted(unit["id"]), unit["plural"]
        strings = [*_STRING.finditer(unit["strings"])]
        if _OTHER_ESCAPE.search(unit["id"] + (plural or "")):
            continue
        for string in strings:
            is_plural = plural is not None and (string[2] not in (None, "0") or len(strings) == 1)
            if source and not _unquoted(string[3]):
                start = unit.start("strings")
                sources.append(_unquoted(plural) if is_plural else source)
                wanted.append((start + string.start(3), start + string.end(3), unit[2]))
    found = iter(_each(translate, sources))
    written = ((begin, end, _po_lines(next(found), eol)) for begin, end, eol in wanted)
    whole = _with_language(replaced(text, written), translate.target_language)
    return encoded(whole, mark, CATALOGUE_ENCODING)


def _po_lines(text: str, line_end: str) -> str:
    """A string of a PO file; one of several lines has one line each, as gettext writes it."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    return _quoted(text) if len(lines) < 2 else line_end.join(['""', *map(_quoted, lines)])


def _with_language(text: str, language: str) -> str:
    """A catalogue with the target language and, in place of a template's, the plural forms of most."""
    text = re.sub(
        r'^"Language: *(?:\\n)?"', f'"Language: {language}\\\\n"', text, count=1, flags=re.MULTILINE
    )
    is_known = spoken_language(language) in _TWO_FORMS
    return _TEMPLATE.sub(r"\1nplurals=2; plural=(n != 1)", text, count=1) if is_known else text


def _each(translate: Translate, texts: Sequence[str]) -> Iterator[str]:
    """The translations of texts, line by line, with the white space around them.

    Tabs separate texts as line breaks do. What has no letters stays as it is.
    """
    parts = [_SEPARATOR.split(text) for text in texts]
    wanted = dict.fromkeys(part.strip() for its in parts for part in its if has_letters(part))
    found = dict(zip(wanted, joined(translate, [*map(_content, wanted)]), strict=True))
    for its in parts:
        yield "".join(part.replace(core, found.get(core, core), 1) for part in its for core in [part.strip()])


def _content(text: str) -> Content:
    """A text whose tags are marks, if all that may be tags are, and none is within a placeholder or code."""
    num_tags = len(_TAG.findall(text))
    num_begun = {len(_TAG_BEGIN.findall(each)) for each in (text, _SPANS.without(text))}
    if num_tags and num_begun == {num_tags}:
        return Document(text, _TAGS)
    return Content([Paragraph("", MarkedText(text, []), "")])


def json_strings(content: bytes, translate: Translate) -> bytes:
    """Translate the strings that are values of a JSON or ARB file, but those of keys that begin with "@".

    Raises:
        DataError: It is not JSON.
    """
    text, mark = decoded(content)
    try:
        json.loads(text)
    except ValueError as error:
        raise DataError(f"no JSON ({error}); correct it") from None
    except RecursionError:
        raise DataError("no usable JSON: nested too deeply; simplify it") from None
    places = [*_json_places(text)]
    found = _each(translate, [place[2] for place in places])
    is_ascii = text.isascii() and "\\u" in text
    written = (
        (begin, end, json.dumps(new, ensure_ascii=is_ascii))
        for (begin, end, old), new in zip(places, found, strict=True)
        if new != old
    )
    whole = replaced(text, written)
    if language := translate.target_language:
        whole = _LOCALE.sub(lambda each: f"{each[1]}{json.dumps(language)}", whole, count=1)
    return mark + whole.encode()


def _json_places(text: str) -> Iterator[Place]:
    key, keys, hidden = "", list[str](), 0
    """The last key, those of the objects and lists around it, and the depth of one that is no text."""
    for found in _JSON_STRING.finditer(text):
        sign = found[0]
        if sign[0] in "{[":
            keys.append(key)
            hidden = hidden or (len(keys) if key.startswith("@") else 0)
            key = key if sign == "[" else ""
        elif sign[0] in "}]":
            hidden = 0 if hidden == len(keys) else hidden
            key = keys.pop()
        elif found[1]:
            key = json.loads(sign[: sign.rindex('"') + 1])
        elif sign[0] == '"' and not hidden and not key.startswith("@"):
            value = json.loads(sign)
            if not _HALF.search(value):
                yield found.start(), found.end(), value


def apple_strings(content: bytes, translate: Translate) -> bytes:
    """Translate the values of a `.strings` file, in UTF-8 or UTF-16.

    Raises:
        DataError: It has none.
    """
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text, mark = (content.decode("utf-16"), b"") if is_utf_16 else decoded(content)
    except UnicodeDecodeError:
        raise DataError("neither UTF-8 nor UTF-16; convert the file", label="E-UTF8") from None
    places = [(*each.span(1), unescaped(each[1][1:-1])) for each in _STRINGS_LINE.finditer(text) if each[1]]
    if not places:
        raise DataError('no strings ("KEY" = "VALUE";); give a .strings file')
    found = _each(translate, [place[2] for place in places])
    written = (
        (begin, end, _quoted(new)) for (begin, end, old), new in zip(places, found, strict=True) if new != old
    )
    return mark + replaced(text, written).encode("utf-16" if is_utf_16 else "utf-8")


def yaml_strings(content: bytes, translate: Translate) -> bytes:
    """Translate the strings that are values of a YAML file; one under the source language gets the target's.

    Raises:
        DataError: It is not YAML.
        UsageError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        message = "YAML files need PyYAML: pip install 'allyouneed[files]'"
        raise UsageError(message) from None
    text, mark = decoded(content)
    text, with_own_ends = with_line_feeds(text)
    try:
        documents = [each for each in yaml.compose_all(text, yaml.SafeLoader) if each]
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f"line {place.line + 1}: " if place else ""
        raise DataError(f"{where}no YAML ({getattr(error, 'problem', error)}); correct it") from None
    except RecursionError:
        raise DataError("no usable YAML: nested too deeply; simplify it") from None
    nodes = [node for document in documents for node in _yaml_nodes(document, set())]
    found = _each(translate, [node.value for node in nodes])
    places = [
        (node.start_mark.index, node.end_mark.index, _yaml_scalar(node, new, text, yaml.safe_dump))
        for node, new in zip(nodes, found, strict=True)
        if new != node.value
    ]
    for document in documents:  # as in Rails, the only key may be a language
        pairs = document.value if isinstance(document, yaml.MappingNode) else []
        if len(pairs) == 1 and translate.target_language and pairs[0][0].value == translate.source_language:
            key = pairs[0][0]
            written = _yaml_plain(translate.target_language, key.style, yaml.safe_dump)
            places.append((key.start_mark.index, key.end_mark.index, written))
    return mark + with_own_ends(replaced(text, sorted(places))).encode()


def _yaml_nodes(node: Any, seen: set[int]) -> Iterator[Any]:
    """The strings of a document that are values, in order; what is named twice comes once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node.value, str):
        if node.tag == "tag:yaml.org,2002:str" and has_letters(node.value):
            yield node
        return
    for each in node.value:
        yield from _yaml_nodes(each[1] if isinstance(each, tuple) else each, seen)


def _yaml_scalar(node: Any, text: str, document: str, dump: Callable[..., str]) -> str:
    """A string as YAML, in the style that it had, if that can be."""
    raw = document[node.start_mark.index : node.end_mark.index]
    head, _, body = raw.partition("\n")
    found = re.match(r"(?:[&!]\S*\s+)*", raw)
    properties = found[0] if found else ""
    if node.style not in ("|", ">"):
        return properties + _yaml_plain(text, node.style, dump)
    tail = re.search(r"\n\s*\Z", raw)
    end = tail[0] if tail else ""
    has_indentation = re.search(r"\d", head.partition("#")[0].rpartition(node.style)[2])
    if has_indentation or (node.style == ">" and re.search(r"^[ \t]", text, re.MULTILINE)):
        return properties + _yaml_plain(text, '"', dump) + end
    indent = re.match(r"\s*", next((line for line in body.split("\n") if line.strip()), "  "))
    prefix = indent[0] if indent else "  "
    new = text.rstrip("\n")
    new = re.sub(r"(?<=[^\n])\n+", r"\g<0>\n", new) if node.style == ">" else new
    return f"{head}\n" + re.sub(r"^(?=.)", lambda _: prefix, new, flags=re.MULTILINE) + end


def _yaml_plain(text: str, style: str | None, dump: Callable[..., str]) -> str:
    """A string on one line, in a style, or in quotes where that would mean something else."""
    if "\n" in text or (not style and _YAML_SIGNS.search(text)):
        style = '"'
    written = dump(text, default_style=style or None, allow_unicode=True, width=float("inf"))
    return written.removesuffix("\n").removesuffix("\n...")
