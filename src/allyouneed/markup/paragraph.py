"""Paragraphs of a document, or cells, or headings: the text, and the marks that tags within it are."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from allyouneed.data.words import has_letters
from allyouneed.markup.marks import Links, Mark, MarkedText

SPACES = re.compile(r"[ \t\n\r\f]+")
"""White space of HTML, of which any amount is a space."""
DEEPEST = 32
"""Number of elements within each other that a paragraph may have."""
_LONGEST_SHOWN = 60
"""Longest text of an element that stays as it is, in characters, that the model sees."""


class Paragraph(NamedTuple):
    """A text that is translated as a whole, with the white space around it."""

    before: str
    content: MarkedText
    after: str


class Content:
    """A document, or a part of one, in pieces: paragraphs, and what stays as it is.

    Args:
        pieces: Its pieces.
        write: Converts a text to what the document has for it, such as entities.
    """

    def __init__(self, pieces: list[str | Paragraph], write: Callable[[str], str] = str) -> None:
        self._pieces, self._write = pieces, write

    @property
    def pieces(self) -> Sequence[str | Paragraph]:
        """The paragraphs, and what stands between them, as it is."""
        return self._pieces

    @property
    def texts(self) -> list[MarkedText]:
        """The texts to be translated, in order."""
        return [piece.content for piece in self._pieces if isinstance(piece, Paragraph)]

    def translated(self, translations: Iterator[tuple[str, Links | None]]) -> str:
        """The document with the next translations, and their alignments, in place of `texts`."""
        return "".join(self.written(translations))

    def written(self, translations: Iterator[tuple[str, Links | None]]) -> Iterator[str]:
        """The pieces of `translated`, each as soon as its translation is there."""
        for piece in self._pieces:
            if isinstance(piece, str):
                yield piece
            else:
                text = piece.content.translated(*next(translations), self._write)
                yield self._write(piece.before) + text + self._write(piece.after)


class ParagraphBuilder:
    """Builds a paragraph from tags and the text between them, in order; `finish` begins the next.

    White space becomes one space unless `keeps_lines`, and moves from the edges of elements to their outside.
    Elements that end in a later paragraph, or began in an earlier one, are marks that go on there.
    """

    def __init__(self, *, keeps_lines: bool) -> None:
        self._keeps_lines = keeps_lines
        self._num_carried: Counter[str] = Counter()
        """How many elements of each name are open of earlier paragraphs or in one that has ended."""
        self._begin()

    def _begin(self) -> None:
        self._raw: list[str] = []
        self._text: list[str] = []
        self._size = 0
        self._has_letters = self._is_behind_kept = self._has_wide_point = False
        self._open = [("", Mark(0))]
        self._num_open: Counter[str] = Counter()
        self._num_wraps = 0
        self._before = self._space = ""
        """White space before the text, and since its last word, up to the next point."""
        self._points: list[tuple[Mark, str]] = []
        """Marks without words since the last word, each with the white space behind it."""
        self._coming: list[Mark] = []
        """Marks that begin with the next word."""

    @property
    def is_full(self) -> bool:
        """Whether there are so many elements within each other that the paragraph cannot go on."""
        return len(self._open) + self._num_wraps > DEEPEST

    def add_text(self, text: str, raw: str) -> None:
        """Add text; `raw` is how the document writes it."""
        self._raw.append(raw)
        if core := text.strip():
            start = text.index(core[0])
            self._add_space(text[:start])
            self._has_letters = self._has_letters or has_letters(core)
            self._add_words(core)
            self._add_space(text[start + len(core) :])
        else:
            self._add_space(text)

    def add_kept(self, raw: str, text: str) -> None:
        """Add an element that stays as it is, and its text.

        The model sees a short text, without which the sentence would be another one; it is not translated.
        """
        self._raw.append(raw)
        shown = " ".join(text.split())
        if len(shown) > _LONGEST_SHOWN or not any(map(str.isalnum, shown)):
            self._add_point(Mark(before=raw))
        else:
            mark = Mark(before=raw, is_kept=True)
            self._parent.children.append(mark)
            self._coming.append(mark)
            self._add_words(shown, is_kept=True)
            mark.end = self._size

    def add_point(self, raw: str, *, is_wide: bool = False) -> None:
        """Add what has no text, such as a comment or, as it parts words that it is between, an image."""
        self._raw.append(raw)
        self._has_wide_point = self._has_wide_point or is_wide
        self._add_point(Mark(before=raw))

    def begin_element(self, name: str, raw: str) -> None:
        """Add a start tag."""
        self._raw.append(raw)
        mark = Mark(before=raw)
        self._parent.children.append(mark)
        self._coming.append(mark)
        self._open.append((name, mark))
        self._num_open[name] += 1

    def end_element(self, name: str, raw: str) -> None:
        """Add an end tag. One of no element stands for itself."""
        self._raw.append(raw)
        if self._num_open[name]:
            while (ended := self._close_last())[0] != name:
                self._num_carried[ended[0]] += 1
            ended[1].after = raw
        elif self._num_carried[name] and self._parent.begin >= 0:
            self._num_carried[name] -= 1
            self._num_wraps += 1
            parent = self._parent
            parent.children = [Mark(parent.begin, self._size, after=raw, children=parent.children)]
        else:
            self._add_point(Mark(before=raw))

    def finish(self) -> Paragraph | str:
        """End the paragraph and begin the next; return it as it was written if it has no letters."""
        while len(self._open) > 1:
            self._num_carried[self._close_last()[0]] += 1
        space, raw, text = self._space, self._raw, "".join(self._text)
        for mark, space_behind in self._points:
            mark.begin = mark.end = self._size
            mark.before, space = space + mark.before, space_behind
        marks, has_letters, before = self._parent.children, self._has_letters, self._before
        self._begin()
        return Paragraph(before, MarkedText(text, marks), space) if has_letters else "".join(raw)

    @property
    def _parent(self) -> Mark:
        return self._open[-1][1]

    def _close_last(self) -> tuple[str, Mark]:
        name, mark = self._open.pop()
        self._num_open[name] -= 1
        mark.end = self._size
        if mark.begin < 0:  # without words
            self._coming.pop()
            self._points.append((mark, ""))
        return name, mark

    def _add_point(self, mark: Mark) -> None:
        self._parent.children.append(mark)
        self._points.append((mark, ""))

    def _add_space(self, space: str) -> None:
        if self._points:
            mark, so_far = self._points[-1]
            self._points[-1] = mark, so_far + space
        else:
            self._space += space

    def _add_words(self, words: str, *, is_kept: bool = False) -> None:
        """Add text without white space at its ends; the points before it now have their places."""
        if not self._keeps_lines:
            words = SPACES.sub(" ", words)
        spaces = [self._space, *(behind for _, behind in self._points)]
        space, is_first = next(filter(None, spaces), ""), not self._size
        is_apart = self._has_wide_point or self._is_behind_kept is not is_kept
        if is_apart and self._text and self._text[-1][-1:].isalnum():
            space = space or " " * words[0].isalnum()  # which is no part of the word beside it
        self._is_behind_kept, self._has_wide_point = is_kept, False
        if is_first:
            self._before, space = self._space, ""
        self._text += [space if self._keeps_lines else space and " ", words]
        ends = [self._size, self._size + len(self._text[-2])]
        is_behind_space = bool(self._space)
        for mark, behind in self._points:
            mark.begin = mark.end = ends[is_behind_space]
            if mark.after and (is_behind_space or is_first):
                mark.after += behind
            elif is_behind_space or is_first:
                mark.before += behind
            is_behind_space = is_behind_space or bool(behind)
        for mark in self._coming:
            mark.begin = ends[1]
        self._size, self._space, self._points, self._coming = ends[1] + len(words), "", [], []
