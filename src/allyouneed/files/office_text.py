"""Text of Office Open XML: paragraphs that are divided into runs, each of which has its own formatting.

A sentence is translated as a whole. Its most frequent formatting surrounds it, and the other formattings,
links, notes and pictures are marks in it, so that every text of the translation is in a run again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allyouneed.errors import DataError
from allyouneed.markup.dialect import XML, escaped
from allyouneed.markup.marks import Links
from allyouneed.markup.paragraph import DEEPEST, Content, Paragraph, ParagraphBuilder

_MOST_BOXES: Final = 16
"""Number of text boxes within each other."""
_FORMATTING: Final = re.compile(r"<w:(?:lang|noProof)\b[^>]*/>| (?:lang|altLang|dirty|err)=\"[^\"]*\"")
"""The language and the spelling of the original, which no longer fit."""
_ALTERNATIVES: Final = "mc:AlternateContent", "mc:Choice", "mc:Fallback"
_RETURN: Final = "_x000D_"
"""The carriage return before a line feed, as Excel writes it."""
_BARE: Final = "\0"
"""The formatting of a text without a run."""


class Names(NamedTuple):
    """Names of elements in one kind of part."""

    paragraph: str
    run: str
    properties: str
    text: str
    splitting: frozenset[str] = frozenset()
    """Elements that end a sentence."""
    kept: frozenset[str] = frozenset()
    """Elements whose texts are no part of a sentence."""

    @property
    def text_tag(self) -> str:
        """The start tag of a text whose spaces count."""
        return f"<{self.text}>" if self.text == "a:t" else f'<{self.text} xml:space="preserve">'


WORDS: Final = Names(
    *("w:p", "w:r", "w:rPr", "w:t"),
    frozenset({"w:tab", "w:br", "w:cr", "w:ptab", *_ALTERNATIVES}),
    frozenset({"w:pPr", "w:del", "w:moveFrom", "w:sdtPr", "w:sdtEndPr", "m:oMath", "m:oMathPara"}),
)
SLIDES: Final = Names(
    *("a:p", "a:r", "a:rPr", "a:t"),
    frozenset({"a:br", *_ALTERNATIVES}),
    frozenset({"a:pPr", "a:endParaRPr", "a:fld"}),
)
CELLS: Final = Names(*("si", "r", "rPr", "t"), kept=frozenset({"rPh", "phoneticPr"}))
INLINE_CELLS: Final = CELLS._replace(paragraph="is")


class _Item(NamedTuple):
    """A part of a paragraph."""

    raw: str
    kind: str
    """"text", "point", "begin", "end", "split", or "mistake" for a mark of the spelling checker."""
    name: str = ""
    """Name of an element that begins or ends; formatting of a text."""
    text: str = ""


class OfficeText:
    """Reads the texts of one part of a document.

    Args:
        names: Names of the elements.
        kept: Texts that stay as they are.
    """

    def __init__(self, names: Names, kept: frozenset[str] = frozenset()) -> None:
        self._names, self._kept = names, kept
        self._builder, self._pieces = ParagraphBuilder(keeps_lines=True), list[str | Paragraph]()
        self._items = list[_Item]()
        """The part of a sentence that has been read."""
        self._field: list[str] | None = None
        """Instructions of a field, such as a page number or a table of contents, that have been read."""
        self._num_fields = 0
        """Number of fields within each other whose instructions are being read."""

    def read(self, part: str) -> Content:
        """The texts of a part, and the rest of it; once.

        Raises:
            DataError: Text boxes, or elements in a sentence, are nested too deeply.
        """
        if not re.search(rf"<{self._names.paragraph}[\s>]", part):
            return Content([part])
        self._read(part, 0)
        self._end_sentence()
        return _Part(self._pieces, self._names)

    def _read(self, part: str, depth: int) -> None:
        if depth > _MOST_BOXES:
            raise DataError(f"more than {_MOST_BOXES} texts within each other; simplify it")
        names, position = self._names, 0
        while found := XML.markup.search(part, position):
            name, raw = found["name"] or "", part[position : found.end()]
            position = found.end()
            is_element = bool(name) and not found["end"] and not found["attributes"].endswith("/")
            if is_element and name in {names.run, names.text, *names.kept}:
                end = _end_of(part, position, name)
                raw, position = raw + part[position:end], end
                if name == names.run:
                    self._add_run(raw, depth)
                elif name == names.text:
                    self._items.append(_Item(raw, "text", _BARE, _text_in(raw)))
                else:
                    self._items.append(_Item(raw, "point"))
            elif name == names.paragraph or name in names.splitting:
                self._items.append(_Item(raw, "split"))
                self._end_sentence()
                self._builder = ParagraphBuilder(keeps_lines=True)
            elif is_element or found["end"]:
                self._items.append(_Item(raw, "end" if found["end"] else "begin", name))
            else:
                self._items.append(_Item(raw, "mistake" if name == "w:proofErr" else "point"))
        self._items.append(_Item(part[position:], "split"))

    def _add_run(self, raw: str, depth: int) -> None:
        """Add a run: its texts in its formatting, what else it has as points, text boxes by themselves."""
        names = self._names
        if re.search(rf"<{names.paragraph}[\s>]", raw):
            self._end_sentence()
            inner = raw.index(">") + 1
            self._pieces.append(raw[:inner])
            self._read(raw[inner:], depth + 1)
            self._end_sentence()
            return
        start, formatting, *children = _children(raw)
        if not formatting.startswith(f"<{names.properties}"):
            children, formatting = [formatting, *children], ""
        children, end = children[:-1], children[-1] if children else ""
        formatting = _FORMATTING.sub("", formatting)
        is_whole = len(children) == 1
        for child in children:
            name = re.match(r"<([^\s/>]*)", child)
            own = raw if is_whole else f"{start}{formatting}{child}{end}"
            self._add_child(name[1] if name else "", child, formatting, own)

    def _add_child(self, name: str, child: str, formatting: str, raw: str) -> None:
        if self._field is not None or "<w:fldChar " in child:
            self._add_to_field(child, raw)
        elif name == self._names.text:
            self._items.append(_Item(raw, "text", formatting, _text_in(child)))
        elif name == "w:noBreakHyphen":
            self._items.append(_Item(raw, "text", formatting, "\N{NON-BREAKING HYPHEN}"))
        elif name in self._names.splitting:
            self._items.append(_Item(raw, "split"))
            self._end_sentence()
        elif name != "w:lastRenderedPageBreak":
            self._items.append(_Item(raw, "point"))

    def _add_to_field(self, child: str, raw: str) -> None:
        """Add a part of a field: instructions are no text, but what they result in is."""
        found = re.search(r'w:fldCharType="(\w+)"', child)
        kind = found[1] if found else ""
        if self._field is None and kind != "begin":
            self._items.append(_Item(raw, "end" if kind == "end" else "point", "field"))
            return
        if self._field is None:
            self._field = []
        self._field.append(raw)
        self._num_fields += (kind == "begin") - (kind == "end")
        if self._num_fields == 0 or (self._num_fields == 1 and kind == "separate"):
            self._items.append(_Item("".join(self._field), "begin" if self._num_fields else "point", "field"))
            self._field, self._num_fields = None, 0

    def _end_sentence(self) -> None:
        """Add the items since the last end as pieces."""
        if self._field:  # goes on, or has no end
            self._items.append(_Item("".join(self._field), "point"))
            self._field = []
        items, self._items = self._items, []
        of_text = [number for number, item in enumerate(items) if item.kind == "text"]
        texts = "".join(items[number].text for number in of_text)
        if not any(map(str.isalpha, texts)) or texts.strip() in self._kept:
            self._pieces.append("".join(item.raw for item in items))
            return
        inner = [n for n, item in enumerate(items) if item.kind in ("text", "begin", "end")]
        first, last = inner[0], inner[-1] + 1
        self._pieces.append("".join(item.raw for item in items[:first]))
        self._pieces += self._sentence(items[first:last])
        self._pieces.append("".join(item.raw for item in items[last:]))

    def _sentence(self, items: Sequence[_Item]) -> Iterator[str | Paragraph]:
        """The pieces of a sentence: a paragraph between the ends of a run."""
        builder, around = self._builder, [_usual(items)]
        yield self._begin(around[0])
        for number, item in enumerate(items):
            end, begin = self._end(around[-1]), self._begin(around[-1])
            if item.kind == "text" and item.name == around[-1]:
                builder.add_text(item.text, "")
            elif item.kind == "text":
                builder.begin_element("run", end + self._begin(item.name))
                builder.add_text(item.text, "")
                builder.end_element("run", self._end(item.name) + begin)
            elif item.kind != "point" and builder.is_full:
                raise DataError(f"more than {DEEPEST} elements within each other in a sentence; simplify it")
            elif item.kind == "begin":
                around.append(_usual(_element(items, number), around[-1]))
                builder.begin_element(item.name, end + item.raw + self._begin(around[-1]))
            elif item.kind == "end":
                if len(around) > 1:
                    around.pop()
                builder.end_element(item.name, end + item.raw + self._begin(around[-1]))
            elif item.kind == "point":
                builder.add_point(end + item.raw + begin)
        yield builder.finish()
        yield self._end(around[-1])

    def _begin(self, formatting: str) -> str:
        run = "" if formatting == _BARE else f"<{self._names.run}>{formatting}"
        return run + self._names.text_tag

    def _end(self, formatting: str) -> str:
        return f"</{self._names.text}>" + ("" if formatting == _BARE else f"</{self._names.run}>")


class _Part(Content):
    """A part; its runs without text, which are left between marks, are not written."""

    def __init__(self, pieces: list[str | Paragraph], names: Names) -> None:
        super().__init__(pieces, escaped)
        run, of_run = names.run, names.properties
        formatting = rf"(?:<{of_run}\b[^>]*/>|<{of_run}\b[^>]*>(?:(?!</{of_run}>).)*+</{of_run}>)?+"
        empty = rf"<{run}>{formatting}{names.text_tag}</{names.text}></{run}>"
        self._empty = re.compile(empty, re.DOTALL)

    def written(self, translations: Iterator[tuple[str, Links | None]]) -> Iterator[str]:
        """See `Content`."""
        yield self._empty.sub("", "".join(super().written(translations)))


def _usual(items: Iterable[_Item], otherwise: str = "") -> str:
    """The formatting of most characters."""
    sizes = Counter[str]()
    for item in items:
        if item.text:
            sizes[item.name] += len(item.text)
    return max(sizes, key=sizes.__getitem__, default=otherwise)


def _element(items: Sequence[_Item], start: int) -> Iterator[_Item]:
    """The items of an element, from that which begins it."""
    depth = 0
    for number in range(start, len(items)):
        yield items[number]
        depth += (items[number].kind == "begin") - (items[number].kind == "end")
        if not depth:
            break


def _end_of(part: str, position: int, name: str) -> int:
    """Where the element that begins before a position ends."""
    depth, tag = 1, re.compile(rf"<(/?){re.escape(name)}(?=[\s/>])(?:[^>]*?)(/?)>")
    while found := tag.search(part, position):
        position = found.end()
        depth += -1 if found[1] else not found[2]
        if not depth:
            return position
    return len(part)


def _children(raw: str) -> list[str]:
    """An element as its start tag, each of its children, and its end tag."""
    found, position = list[str](), 0
    while tag := XML.markup.search(raw, position):
        end = tag.end()
        is_inner = found and tag["name"] and not tag["end"] and not tag["attributes"].endswith("/")
        if is_inner:
            end = _end_of(raw, end, tag["name"])
        found.append(raw[tag.start() : end])
        position = end
    return found


def _text_in(raw: str) -> str:
    """The text of an element, with the spaces at its ends if it says so."""
    start = raw.index(">") + 1
    text = XML.read(raw[start : raw.rindex("<")]).replace(_RETURN, "") if "</" in raw else ""
    return text if 'xml:space="preserve"' in raw[:start] or raw.startswith("<a:") else text.strip()
