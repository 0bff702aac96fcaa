"""Markdown (CommonMark, with tables): the texts of its blocks, with emphasis, links and code in place."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from allyouneed.files.translating import Translate, decoded, joined, with_line_feeds
from allyouneed.markup.document import Document
from allyouneed.markup.marks import Links
from allyouneed.markup.paragraph import Content, Paragraph, ParagraphBuilder

_FRONT_MATTER: Final = re.compile(
    r"\A(?:---[ \t]*\n.*?^(?:---|\.\.\.)|\+\+\+[ \t]*\n.*?^\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
"""Settings of a page, in YAML or TOML."""
_BREAK: Final = re.compile(r"[ \t]*\\?\n[ \t]*")
_SPECIAL: Final = re.compile(r"[\\`*<]|\[(?!\^)(?=[^\]]*\][(\[:])|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_BOX: Final = re.compile(r"\[[ xX]\][ \t]+")
"""The box of a task in a list."""
_BLOCK: Final = re.compile(r"([#+>-]|\d+(?=[.)]))(?=\s|[.)]\s)|(?=[|=])")
_NUMBER: Final = re.compile(r"\d+(?=[.)]\s)")
_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w-]*)[^>]*?(/?)>")
_DIRECTIVE: Final = re.compile(r":{3}")
"""The beginning of a block of other dialects, which stays as it is."""
_ALERT: Final = re.compile(r"\[!\w+\]")
"""The first line of a quotation that is an alert."""
_TITLE: Final = re.compile(r"""\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\))""")
_PAIRED: Final = {"em", "strong", "s"}


def markdown(content: bytes, translate: Translate) -> bytes:
    """Translate a page in Markdown. A paragraph becomes one line; everything but text stays as it is.

    Raises:
        DataError: It is not UTF-8.
    """
    text, mark = decoded(content)
    text, with_own_ends = with_line_feeds(text)
    text = text.replace("\r", "\n")  # which end lines, too
    head = found[0] if (found := _FRONT_MATTER.match(text)) else ""
    contents = [*_contents(text[len(head) :])]
    return mark + with_own_ends(head + "".join(joined(translate, contents))).encode()


def _contents(text: str) -> Iterator[Content]:
    """A page in parts: its blocks of text, those of HTML, and what stands between them."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable("text_join")  # which would hide where escapes are
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    position, is_cell = 0, False
    for token in parser.parse(text):
        if token.type in ("td_open", "th_open", "td_close", "th_close"):
            is_cell = token.nesting > 0
        if token.map is None or token.type not in ("inline", "html_block") or _DIRECTIVE.match(token.content):
            continue
        begin, end = starts[token.map[0]], starts[min(token.map[1], len(lines))]
        begin = max(begin, position)
        if token.type == "html_block":
            if token.level:  # with the marks of a quotation or list in it
                continue
            yield Content([text[position:begin]])
            yield Document(text[begin:end])
            position = end
        elif found := _found(text, _in_cell(token.content) if is_cell else token.content, begin, end):
            yield Content([text[position : found[0]]])
            pieces = [*_Inline(parser, token, _prefix(token, lines)).pieces()]
            yield (_Cell if is_cell else Content)(pieces, _written)
            position = found[1]
    yield Content([text[position:]])


def _found(text: str, content: str, begin: int, end: int) -> tuple[int, int] | None:
    """Where a page has the text of a block, between marks of quotations and lists at the ends of lines."""
    first, *others = content.split("\n")
    start = text.find(first, begin, end)
    place = start + len(first)
    for line in others:
        if start < 0 or (found := text.find(line, place, end)) < 0:
            return None
        place = found + len(line)
    return (start, place) if start >= 0 and content.strip() else None


def _prefix(token: Token, lines: Sequence[str]) -> str:
    """The beginning of the second line of a block, such as the marks of a quotation."""
    _, *others = token.content.split("\n")
    number = token.map[0] + 1 if token.map else len(lines)
    place = lines[number].find(others[0]) if others and number < len(lines) else -1
    return lines[number][: max(0, place)] if place >= 0 else ""


def _in_cell(text: str) -> str:
    return re.sub(r"\\?\|", r"\\|", text)


class _Cell(Content):
    """A cell of a table, in which `|` has another meaning unless it is escaped."""

    def written(self, translations: Iterator[tuple[str, Links | None]]) -> Iterator[str]:
        """See `Content`."""
        for each in super().written(translations):
            yield _in_cell(each)


class _Inline:
    """The text of a block as marks."""

    def __init__(self, parser: MarkdownIt, token: Token, prefix: str) -> None:
        self._parser, self._token, self._text, self._prefix = parser, token, token.content, prefix
        self._builder = ParagraphBuilder(keeps_lines=False)
        self._position = 0
        self._is_autolink = False
        self._label_begin = 0
        """Where the text of the last link begins."""

    def pieces(self) -> Iterator[str | Paragraph]:
        """The paragraphs of the block, which end where a line must."""
        is_alert = _ALERT.fullmatch(self._text.partition("\n")[0]) is not None
        for number, token in enumerate(self._token.children or []):
            if token.type == "hardbreak" or (token.type == "softbreak" and number == 1 and is_alert):
                yield self._builder.finish()
                yield self._take_break() + self._prefix
            elif is_alert and not number:
                yield self._take(token.content)
            elif not number and token.type == "text" and (box := _BOX.match(token.content)):
                yield self._take(box[0])
                self._add_text(token.content[box.end() :])
            elif token.type in ("link_open", "link_close"):
                self._add_link(token)
            else:
                self._add(token)
        self._add_text(self._text[self._position :])
        yield self._builder.finish()

    def _add(self, token: Token) -> None:
        """Add what begins and ends within a sentence."""
        match token.type:
            case "text" if not self._is_autolink:
                self._add_text(token.content)
            case "text_special":
                self._builder.add_text(token.content, self._take(token.markup))
            case "softbreak":
                self._builder.add_text(" ", self._take_break())
            case "code_inline":
                fence = re.escape(token.markup)
                raw = self._take_match(rf"{fence}.*?(?<!`){fence}(?!`)")
                self._builder.add_kept(raw, token.content)
            case "image":
                start = self._position
                self._position += 2 + len(token.content)
                self._take_target()
                self._builder.add_point(self._text[start : self._position])
            case "html_inline":
                self._add_tag(self._take(token.content))
            case _:
                self._add_emphasis(token)

    def _add_text(self, text: str) -> None:
        self._builder.add_text(text, self._take(text))

    def _add_link(self, token: Token) -> None:
        if token.markup == "autolink":
            self._is_autolink = token.type == "link_open"
            if self._is_autolink:
                raw = self._take_match(r"<[^>]*>")
                self._builder.add_kept(raw, raw[1:-1])
        elif token.type == "link_open":
            self._builder.begin_element("link", self._take("["))
            self._label_begin = self._position
        else:
            self._builder.end_element("link", self._take_target())

    def _add_emphasis(self, token: Token) -> None:
        name = token.type.rpartition("_")[0]
        if name in _PAIRED and token.nesting > 0:
            self._builder.begin_element(name, self._take(token.markup))
        elif name in _PAIRED:
            self._builder.end_element(name, self._take(token.markup))

    def _add_tag(self, raw: str) -> None:
        found = _TAG.fullmatch(raw)
        if not found or found[3] or found[2].lower() in ("br", "img", "hr", "input", "wbr"):
            self._builder.add_point(raw)
        elif found[1]:
            self._builder.end_element(found[2].lower(), raw)
        else:
            self._builder.begin_element(found[2].lower(), raw)

    def _take(self, raw: str) -> str:
        """Pass over what comes next."""
        if self._text.startswith(raw, self._position):
            self._position += len(raw)
        return raw

    def _take_match(self, pattern: str) -> str:
        found = re.compile(pattern, re.DOTALL).match(self._text, self._position)
        return self._take(found[0] if found else "")

    def _take_break(self) -> str:
        found = _BREAK.match(self._text, self._position)
        return self._take(found[0] if found else "\n")

    def _take_target(self) -> str:
        """Pass over the end of a link: `](target "title")`, `][name]`, or `]` behind a name, which stays."""
        text, start = self._text, self._position
        label = " ".join(text[self._label_begin : start].split())
        end = start + 1
        if text[end : end + 1] == "(":
            place = end + 1
            while place < len(text) and text[place].isspace():
                place += 1
            target = self._parser.helpers.parseLinkDestination(text, place, len(text))
            place = target.pos if target.ok else place
            if titled := _TITLE.match(text, place):
                place = titled.end()
            if closed := re.compile(r"\s*\)").match(text, place):
                self._position = closed.end()
                return text[start : self._position]
        if named := re.compile(r"\[[^\]]*\]").match(text, end):
            end = named.end()
        self._position = end
        is_named = named and named[0] != "[]"
        return text[start:end] if is_named or label.startswith("^") else f"][{label}]"


def _written(text: str) -> str:
    """A text so that it has no meaning in Markdown."""
    text = _SPECIAL.sub(r"\\\g<0>", text)
    if text.count("]") > text.count("["):
        text = text.replace("]", r"\]")
    if _NUMBER.match(text):
        return _NUMBER.sub(r"\g<0>\\", text, count=1)
    return f"\\{text}" if _BLOCK.match(text) else text
