"""Documents in HTML or XML: their texts, and the documents with the translations of these."""

import html
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from allyouneed.data.words import has_letters
from allyouneed.markup.dialect import HTML, Dialect
from allyouneed.markup.marks import Links, MarkedText
from allyouneed.markup.paragraph import Content, Paragraph, ParagraphBuilder

_ATTRIBUTE: Final = re.compile(r"""([^\s"'>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_NOTE: Final = re.compile(
    r"<(su[bp])(?=[\s>])[^>]*(?<!/)>(?:<(?!/?su[bp]\b)[^>]*>|[^<\w]|\d){0,50}</\1\s*>", re.IGNORECASE
)
"""An index without letters, such as the number of a footnote, which is no part of the word before it."""
_DEEPEST: Final = 512
"""Number of nested elements above which further ones count as siblings, as in browsers."""


class _Element(NamedTuple):
    name: str
    is_translated: bool


class Document(Content):
    """A document, or a part of one, as the texts of its sentences or paragraphs.

    Texts of scripts, styles, code and the like, and of elements with `translate="no"` or the class
    `notranslate`, are not translated. Every string is a document.
    """

    def __init__(self, document: str, dialect: Dialect = HTML) -> None:
        self._dialect, self._splitting = dialect, dialect.splitting_in(document)
        super().__init__([], dialect.write)
        self._builder = ParagraphBuilder(keeps_lines=dialect.keeps_lines)
        self._kept: tuple[list[str], list[str]] | None = None
        """The parts so far of an element in a sentence that stays as it is, and of its text."""
        self._is_silent = False
        self._open = [_Element("", is_translated=True)]
        self._num_open: Counter[str] = Counter()
        """How many elements of each name are open: a search for each end tag would take quadratic time."""
        position = 0
        while found := dialect.markup.search(document, position):
            self._add_text(document[position : found.start()])
            position = found.end()
            if self._open[-1].is_translated and (note := _NOTE.match(document, found.start())):
                self._add_note(note[0])
                position = note.end()
                continue
            self._add_markup(found)
            if self._open[-1].name in dialect.raw and not found["end"]:
                position = self._pass_over_raw(document, position)
        self._add_text(document[position:])
        self._end_paragraph()

    def _add_text(self, raw: str) -> None:
        if not raw:
            return
        if self._open[-1].is_translated:
            self._builder.add_text(self._dialect.read(raw), raw)
        elif self._kept:
            self._kept[0].append(raw)
            if not self._is_silent:
                self._kept[1].append(self._dialect.read(raw))
        else:
            self._pieces.append(raw)

    def _add_note(self, raw: str) -> None:
        self._builder.add_point(raw)

    def _add_markup(self, found: re.Match[str]) -> None:
        """Add a tag, or what is no text either, such as a comment."""
        raw, name = found[0], (found["name"] or "").lower()
        was_translated = self._open[-1].is_translated
        is_open = bool(name) and self._nest(found)
        is_translated = self._open[-1].is_translated
        is_splitting = name in self._splitting and not (self._kept and self._is_silent)
        if is_splitting or (not was_translated and is_translated and not found["end"]):
            self._end_paragraph()
            self._pieces.append(raw)
        elif self._kept:
            self._kept[0].append(raw)
            if is_translated:
                self._builder.add_kept(*map("".join, self._kept))
                self._kept = None
        elif was_translated and is_translated:
            self._add_within_sentence(name, raw, is_end=bool(found["end"]), is_open=is_open)
        elif was_translated and not found["end"]:
            self._kept = [raw], []
            self._is_silent = name in self._dialect.silent
        else:
            self._end_paragraph()
            self._pieces.append(raw)

    def _add_within_sentence(self, name: str, raw: str, *, is_end: bool, is_open: bool) -> None:
        if self._builder.is_full:
            self._end_paragraph()
        if is_end:
            self._builder.end_element(name, raw)
        elif is_open:
            self._builder.begin_element(name, raw)
        else:
            self._builder.add_point(raw, is_wide=name in self._dialect.void - {"wbr"})

    def _end_paragraph(self) -> None:
        if found := self._builder.finish():
            self._pieces.append(found)
        if self._kept:
            self._pieces.append("".join(self._kept[0]))
            self._kept = None

    def _nest(self, tag: re.Match[str]) -> bool:
        """Note the elements that are open after a tag; return whether the tag opens one."""
        name, parent = tag["name"].lower(), self._open[-1]
        if tag["end"]:
            num_left = max(0, self._num_open[name] - 1)
            while self._num_open[name] > num_left:
                self._num_open[self._open.pop().name] -= 1
        elif self._dialect.has_empty_tags and tag["attributes"].endswith("/"):
            return False
        elif name in self._dialect.raw or (name not in self._dialect.void and len(self._open) < _DEEPEST):
            is_kept = name in self._dialect.kept
            self._open.append(_Element(name, _is_translated(tag["attributes"], parent, is_kept)))
            self._num_open[name] += 1
        return not tag["end"] and name not in self._dialect.void

    def _pass_over_raw(self, document: str, position: int) -> int:
        """Add what is in an element without markup, and return where its end tag begins."""
        name = self._open[-1].name
        found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(document, position)
        end = found.start() if found else len(document)
        self._add_text(document[position:end])
        return end


class Passages:
    """Texts as what is translated of each: the whole or, with a dialect, the texts of a document."""

    def __init__(self, texts: Sequence[str], dialect: Dialect | None) -> None:
        self._documents = [Document(text, dialect) for text in texts] if dialect else None
        self.parts = [[MarkedText(text, [])] for text in texts]
        """Each text's parts that are translated."""
        if self._documents:
            self.parts = [document.texts for document in self._documents]

    @property
    def need_links(self) -> bool:
        """Whether tags stand within sentences."""
        return any(part.needs_links for parts in self.parts for part in parts)

    def joined(self, number: int, translations: Sequence[tuple[str, Links | None]]) -> str:
        """Return the text of this number with translations, and their alignments, in place of its parts."""
        documents = self._documents
        return documents[number].translated(iter(translations)) if documents else translations[0][0]


class Attributes(Document):
    """A document as the texts of the dialect's attributes, those of elements that are translated."""

    def __init__(self, document: str, dialect: Dialect = HTML) -> None:
        super().__init__(document, dialect._replace(write=lambda text: _quoted(dialect.write(text))))

    def _add_text(self, raw: str) -> None:
        self._pieces.append(raw)

    _add_note = _add_text

    def _add_markup(self, found: re.Match[str]) -> None:
        parent, name = self._open[-1], (found["name"] or "").lower()
        if name:
            self._nest(found)
        start, is_start = found.start(), name and not found["end"]
        if is_start and _is_translated(found["attributes"], parent, name in self._dialect.kept):
            for each in _ATTRIBUTE.finditer(found.string, *found.span("attributes")):
                value = html.unescape(each[2] or each[3] or "")
                if each[1].lower() in self._dialect.attributes and has_letters(value):
                    begin, end = each.span(2 if each[2] else 3)
                    self._pieces.append(found.string[start:begin])
                    self._pieces.append(Paragraph("", MarkedText(value, []), ""))
                    start = end
        self._pieces.append(found.string[start : found.end()])


def _quoted(text: str) -> str:
    return text.replace('"', "&quot;").replace("'", "&#x27;")


def _is_translated(attributes: str, parent: _Element, is_kept: bool) -> bool:
    """Whether the text of an element is translated, from its start tag and the element around it."""
    values = {each[1].lower(): each[2] or each[3] or each[4] for each in _ATTRIBUTE.finditer(attributes)}
    if (values.get("translate") or "").lower() in ("yes", "no"):
        return str(values["translate"]).lower() == "yes"
    return parent.is_translated and not is_kept and "notranslate" not in (values.get("class") or "").split()
