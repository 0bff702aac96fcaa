"""HTML and XML: where tags are, what their elements mean for a translation, and what is not well-formed.

A regular expression that passes over a document once finds its tags, as the tokeniser of the HTML standard
does, and their places, so that everything but text stays as it is, byte for byte. Parsers that make trees
write tags anew; that of older standard libraries takes quadratic time where tags are not closed.
"""

import html
import re
from collections import Counter
from collections.abc import Callable
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
_XML_MARKUP: Final = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|"
    + _MARKUP.pattern.replace("[A-Za-z]", r"(?:[^\W\d]|:)"),
    _MARKUP.flags,
)
_ESCAPED_MARKUP: Final = re.compile(
    _XML_MARKUP.pattern.replace("<(?P<end>", "(?:<|&lt;)(?P<end>")
    .replace(r"[^\s/>]*)", r"[^\s/>&]*)")
    .replace(r"|[^>])*+)(?:>|\Z)", r"|(?!&gt;)[^>])*+)(?:>|&gt;|\Z)"),
    _MARKUP.flags,
)
_VALUE: Final = r"""(?:\\?"[^"<>]*"|\\?'[^'<>]*'|&quot;(?:(?!&quot;)[^<>])*&quot;|[^\s"'<>=&]+)"""
_ESCAPED_TAG: Final = re.compile(
    rf"&lt;(/?)([A-Za-z][\w:-]*)(?:\s+[\w:-]+\s*=\s*{_VALUE})*+\s*(/?)(?:>|&gt;)"
)
_PROLOG: Final = re.compile(r"\A\ufeff?[ \t\r\n]*(?:<\?xml\s[^<>]*\?>[ \t\r\n]*)?(?:<!DOCTYPE\s[^][<>]*>)?")
_RAW: Final = frozenset({"script", "style", "textarea", "title"})
"""Elements that contain no markup."""
_KEPT: Final = frozenset(
    {
        *("script", "style", "textarea", "address", "applet", "audio", "canvas", "code", "embed"),
        *("kbd", "math", "object", "pre", "rp", "rt", "samp", "svg", "time", "var", "video"),
    }
)
"""Elements whose text is not translated."""
_SILENT: Final = _KEPT - {"address", "code", "kbd", "pre", "samp", "time", "var"}
"""Elements whose text is no part of a sentence."""
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
"""Elements that contain nothing."""
_SPLITTING: Final = frozenset(
    {
        *("address", "article", "aside", "base", "blockquote", "body", "br", "caption", "center"),
        *("col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset"),
        *("figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li", "link", "main"),
        *("menu", "meta", "nav", "noframes", "ol", "optgroup", "option", "p", "pre", "search"),
        *("section", "select", "summary", "table", "tbody", "td", "template", "textarea", "tfoot"),
        *("th", "thead", "title", "tr", "ul"),
    }
)
"""Elements that browsers set apart from the text around them; all others are parts of a sentence."""


def escaped(text: str) -> str:
    """A text as XML has it between tags."""
    return html.escape(text, quote=False)


def _escaped_in_html(text: str) -> str:
    return escaped(text).replace("\xa0", "&nbsp;")


class Dialect(NamedTuple):
    """The meaning of tags, white space and entities."""

    markup: re.Pattern[str] = _MARKUP
    raw: frozenset[str] = _RAW
    kept: frozenset[str] = _KEPT
    silent: frozenset[str] = _SILENT
    void: frozenset[str] = _VOID
    splitting: frozenset[str] = _SPLITTING
    """Elements that end a sentence where they begin and where they end."""
    not_splitting: frozenset[str] = frozenset()
    """Elements that do not, whatever else is said."""
    has_outline: bool = False
    """Whether the elements that `outline_of` finds end sentences, too."""
    keeps_lines: bool = False
    """Whether line breaks mean something."""
    attributes: frozenset[str] = frozenset()
    """Attributes whose texts are translated, in small letters, such as "title"."""
    has_empty_tags: bool = False
    """Whether a tag like `<name/>` is a whole element."""
    read: Callable[[str], str] = html.unescape
    """Converts what a document has between tags to text."""
    write: Callable[[str], str] = _escaped_in_html
    """Does the opposite."""

    def splitting_in(self, document: str) -> frozenset[str]:
        """The elements of a document that end a sentence."""
        outline = outline_of(document, self) if self.has_outline else frozenset[str]()
        return (self.splitting | outline) - self.not_splitting


HTML: Final = Dialect()
_NO_ELEMENTS: Final = (frozenset[str](),) * 5
XML: Final = Dialect(_XML_MARKUP, *_NO_ELEMENTS, has_outline=True, has_empty_tags=True, write=escaped)
"""XML, in which the names of elements mean nothing; CDATA sections are not translated."""
DIALECTS: Final = {"html": HTML, "xml": XML}


def with_escaped_tags(document: str, dialect: Dialect) -> Dialect:
    """The dialect with tags of HTML like `&lt;b&gt;`, if all that a document writes so are tags in pairs."""
    tags, num_open = _ESCAPED_TAG.findall(document), Counter[str]()
    for end, name, empty in tags:
        if not empty and name.lower() not in HTML.void:
            num_open[name.lower()] += -1 if end else 1
    if not tags or len(tags) < document.count("&lt;") or any(num_open.values()):
        return dialect
    return dialect._replace(
        markup=_ESCAPED_MARKUP,
        kept=dialect.kept | HTML.kept,
        silent=dialect.silent | HTML.silent,
        void=dialect.void | HTML.void,
        splitting=dialect.splitting | HTML.splitting,
    )


def outline_of(document: str, dialect: Dialect) -> frozenset[str]:
    """The names of the elements that never stand beside text: paragraphs, but not words in bold."""
    names, beside_text = set[str](), set[str]()
    open_elements, position = [(False, set[str]())], 0
    """Whether each of the elements around the position has text, and the names in it."""

    def close() -> None:
        has_text, inner = open_elements.pop()
        beside_text.update(inner if has_text else ())

    while found := dialect.markup.search(document, position):
        if not document[position : found.start()].isspace() and position < found.start():
            open_elements[-1] = True, open_elements[-1][1]
        position = found.end()
        if name := (found["name"] or "").lower():
            if not found["end"]:
                names.add(name)
                open_elements[-1][1].add(name)
                if not found["attributes"].endswith("/"):
                    open_elements.append((False, set()))
            elif len(open_elements) > 1:
                close()
    if document[position:].strip():
        open_elements[-1] = True, open_elements[-1][1]
    while open_elements:
        close()
    return frozenset(names - beside_text)


_BEGUN: Final = re.compile(r"[<&][^<>&;]*\Z")
"""The beginning of what is not well-formed, where expat finds the fault only after it."""

_NOT_CLOSED: Final = (
    expat.errors.XML_ERROR_TAG_MISMATCH,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
)


def xml_fault(text: str) -> str | None:
    """The place and reason of a text that is not well-formed XML; None for a document or a part of one."""
    if half := re.search(r"[\ud800-\udfff]", text):
        before = text[: half.start()]
        column = len(before.rpartition("\n")[2]) + 1
        return f"line {before.count(chr(10)) + 1}, column {column}: half a surrogate pair"
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
