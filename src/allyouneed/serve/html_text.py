"""The texts of an HTML or XML document that are to be translated, and the document with their translations.

Regular expressions that pass over the document once find its tags: the parser of older standard libraries
takes quadratic time where tags are not closed, half a second for 5,000 characters.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from xml.parsers import expat

_MARKUP: Final = re.compile(
    r"""
      <!--(?:-?>|.*?(?:-->|\Z))              # a comment
    | <(?:[!?]|/(?![A-Za-z]))[^>]*(?:>|\Z)   # a declaration, or what browsers take for a comment
    | <(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*)
      (?P<attributes>(?:=\s*"[^"]*(?:"|\Z)|=\s*'[^']*(?:'|\Z)|[^>])*+)(?:>|\Z)
    | (?:<|&(?:lt|\#60|\#[xX]3[cC]);)(?:(?:\d|[^\w\s<&/])+|(?=\s|\Z))  # no markup, but models lose it: `<3`
    """,
    re.DOTALL | re.VERBOSE,
)
"""Markup; where it is not closed, it reaches to the end of the document, as in browsers."""
_XML_MARKUP: Final = re.compile(rf"<!\[CDATA\[.*?(?:\]\]>|\Z)|{_MARKUP.pattern}", _MARKUP.flags)
_PROLOG: Final = re.compile(r"\A\ufeff?[ \t\r\n]*(?:<\?xml\s[^<>]*\?>[ \t\r\n]*)?(?:<!DOCTYPE\s[^][<>]*>)?")
_ATTRIBUTE: Final = re.compile(r"""([^\s"'>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_SPACES: Final = re.compile(r"[ \t\n\r\f]+")
_RAW: Final = frozenset({"script", "style"})
"""Elements that contain no markup."""
_KEPT: Final = frozenset(
    {*_RAW, "address", "applet", "audio", "canvas", "code", "embed", "math", "svg", "time", "video"}
)
"""Elements whose text is not translated."""
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
"""Elements that contain nothing."""
_DEEPEST: Final = 512
"""Number of nested elements above which further ones count as siblings, as in browsers."""


class Dialect(NamedTuple):
    """The meaning of tags and white space."""

    markup: re.Pattern[str] = _MARKUP
    raw: frozenset[str] = _RAW
    kept: frozenset[str] = _KEPT
    void: frozenset[str] = _VOID
    keeps_lines: bool = False
    """Whether line breaks mean something in every element."""
    has_empty_tags: bool = False
    """Whether a tag like `<name/>` is a whole element."""
    hard_space: str = "&nbsp;"
    """How a no-break space is written."""

    def without(self, names: Iterable[str]) -> "Dialect":
        """Return the same dialect with further elements whose text is not translated."""
        return self._replace(kept=self.kept | {name.lower() for name in names})


HTML: Final = Dialect()
_NO_ELEMENTS: Final = (frozenset[str](),) * 3
XML: Final = Dialect(_XML_MARKUP, *_NO_ELEMENTS, keeps_lines=True, has_empty_tags=True, hard_space="\xa0")
"""XML, in which the names of elements mean nothing; CDATA sections are not translated."""


_BEGUN: Final = re.compile(r"[<&][^<>&;]*\Z")
"""The beginning of what is not well-formed, where expat finds the fault only after it."""

_NOT_CLOSED: Final = (
    expat.errors.XML_ERROR_TAG_MISMATCH,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)


def xml_fault(text: str) -> str | None:
    """The place and reason of a text that is not well-formed XML; None for a document or a part of one."""
    parser, still_open = expat.ParserCreate("utf-8"), list[tuple[str, int]]()
    parser.StartElementHandler = lambda name, _: still_open.append((f"<{name}>", parser.CurrentByteIndex))
    parser.StartCdataSectionHandler = lambda: still_open.append(("<![CDATA[", parser.CurrentByteIndex))
    parser.EndElementHandler = lambda _: still_open.pop()
    parser.EndCdataSectionHandler = still_open.pop
    content = "<content>\n" + _PROLOG.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    try:
        parser.Parse(content + "</content>", True)
    except expat.ExpatError as error:
        reason, data = expat.ErrorString(error.code), content.encode()
        if reason in _NOT_CLOSED and len(still_open) > 1:
            begun, start = still_open[-1]
            reason, before = f"{begun[:64]} is not closed", data[:start].decode()
        else:
            before = data[: parser.ErrorByteIndex].decode()
            if token := _BEGUN.search(before):
                if token[0].startswith("<!"):
                    reason = "declarations are not accepted"
                elif before == content and token[0] != "<":
                    reason = f"{token[0].split()[0][:64]} is not closed"
                before = before[: token.start()]
        line = before.rpartition("\n")[2]
        return f"line {before.count(chr(10))}, column {len(line) + 1}: {reason}"
    return None


class Passages:
    """The parts of texts that are translated: the whole texts or, with a dialect, what is between tags."""

    def __init__(self, texts: Sequence[str], dialect: Dialect | None) -> None:
        self._documents = [HtmlText(text, dialect) for text in texts] if dialect else None
        self.parts = (
            [each.texts for each in self._documents] if self._documents else [[each] for each in texts]
        )

    def joined(self, number: int, translations: Sequence[str]) -> str:
        """Return the text of this number with translations in place of its parts."""
        return self._documents[number].with_translations(translations) if self._documents else translations[0]


class _Text(NamedTuple):
    """A text, without entities, and the white space around it."""

    before: str
    core: str
    after: str


class _Element(NamedTuple):
    name: str
    is_translated: bool
    keeps_lines: bool


class HtmlText:
    """An HTML document, or a part of one, as the texts between its tags.

    Texts of scripts, styles, code and the like, and of elements with `translate="no"` or the class
    `notranslate`, are not translated. Every string is a document.
    """

    def __init__(self, document: str, dialect: Dialect = HTML) -> None:
        self._dialect = dialect
        self._pieces: list[str | _Text] = []
        self._open = [_Element("", is_translated=True, keeps_lines=dialect.keeps_lines)]
        self._num_open: Counter[str] = Counter()
        """How many elements of each name are open: a search for each end tag would take quadratic time."""
        position = 0
        while found := dialect.markup.search(document, position):
            self._add(document[position : found.start()])
            self._pieces.append(found[0])
            position = found.end()
            if found["name"]:
                self._nest(found)
            if self._open[-1].name in dialect.raw:
                position = self._pass_over_raw(document, position)
        self._add(document[position:])

    @property
    def texts(self) -> list[str]:
        """The texts to be translated, in order."""
        return [piece.core for piece in self._pieces if isinstance(piece, _Text)]

    def with_translations(self, translations: Sequence[str]) -> str:
        """Return the document with translations in place of `texts`; everything else is as it was."""
        remaining = iter(translations)
        return "".join(
            self._escaped(piece.before + next(remaining) + piece.after) if isinstance(piece, _Text) else piece
            for piece in self._pieces
        )

    def _add(self, raw: str) -> None:
        text = html.unescape(raw)
        if not self._open[-1].is_translated or not text.strip():
            self._pieces.append(raw)
            return
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        core = text[start:end]
        core = core if self._open[-1].keeps_lines else _SPACES.sub(" ", core)
        self._pieces.append(_Text(text[:start], core, text[end:]))

    def _nest(self, tag: re.Match[str]) -> None:
        name, parent = tag["name"].lower(), self._open[-1]
        if tag["end"]:
            num_left = max(0, self._num_open[name] - 1)
            while self._num_open[name] > num_left:
                self._num_open[self._open.pop().name] -= 1
        elif self._dialect.has_empty_tags and tag["attributes"].endswith("/"):
            return
        elif name in self._dialect.raw or (name not in self._dialect.void and len(self._open) < _DEEPEST):
            is_translated = _is_translated(tag["attributes"], parent, name in self._dialect.kept)
            self._open.append(_Element(name, is_translated, parent.keeps_lines or name == "pre"))
            self._num_open[name] += 1

    def _pass_over_raw(self, document: str, position: int) -> int:
        """Keep what is in an element without markup, and return where its end tag begins."""
        name = self._open[-1].name
        found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(document, position)
        end = found.start() if found else len(document)
        self._pieces.append(document[position:end])
        return end

    def _escaped(self, text: str) -> str:
        return html.escape(text, quote=False).replace("\xa0", self._dialect.hard_space)


def _is_translated(attributes: str, parent: _Element, is_kept: bool) -> bool:
    """Whether the text of an element is translated, from its start tag and the element around it."""
    values = {each[1].lower(): each[2] or each[3] or each[4] for each in _ATTRIBUTE.finditer(attributes)}
    if (values.get("translate") or "").lower() in ("yes", "no"):
        return str(values["translate"]).lower() == "yes"
    return parent.is_translated and not is_kept and "notranslate" not in (values.get("class") or "").split()
