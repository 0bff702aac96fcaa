"""Texts with marks, such as tags, and the place of each mark in the translation.

A mark covers a part of the text and may lie within another one. In the translation it covers the words that
are aligned with its own: one span within that of its parent, beside those of its siblings. So the result is
as well-formed as the text, and has every tag once, whatever the alignment is.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from allyouneed.data.spans import KINDS, Spans
from allyouneed.data.words import Span, split_words

Links = Sequence[tuple[int, int, int, int]]
"""Aligned characters: begin and end in the text, begin and end in the translation."""

_LEAST_SHARE: Final = 0.5
"""Share of a word's links that it needs to count for a mark, not against it."""
_NO_SPACE_BEFORE: Final = " .,;:!?)\u2026"
"""The characters before which no space is written; the end of a text counts as one of them."""


@dataclass(slots=True)
class Mark:
    """A part of a text, with what stands before and after it, such as tags.

    A mark of some text that lacks one of both begins before the text, or ends after it: it covers the
    beginning, or the end, of what its parent covers.
    """

    begin: int = -1
    end: int = -1
    before: str = ""
    after: str = ""
    children: "list[Mark]" = field(default_factory=list)
    is_kept: bool = False
    """Whether `before` stands in place of the words, which only the model sees."""


class MarkFates(NamedTuple):
    """The fates of the marks of a text in its translation."""

    num: int
    """Number of marks."""
    moved: list[str]
    """The marks that stand at another place among their neighbours than in the text."""
    emptied: list[str]
    """The marks whose words have no translation, so that they cover nothing."""


@dataclass(slots=True)
class MarkedText:
    """A text without its marks, and the marks, in order; those within others are their children."""

    text: str
    marks: list[Mark]

    @property
    def needs_links(self) -> bool:
        """Whether a mark stands within the text, not only around it or at an end."""
        waiting = [*self.marks]
        while waiting:
            mark = waiting.pop()
            if mark.is_kept or 0 < mark.begin < len(self.text) or 0 < mark.end < len(self.text):
                return True
            waiting += mark.children
        return False

    def translated(self, text: str, links: Links | None, escape: Callable[[str], str] = str) -> str:
        """The translation with the marks.

        Args:
            text: The translation of the text.
            links: Its alignment; None if there is none, and words are taken to be in the same order.
            escape: Converts what stands between marks.
        """
        return self._writer(text, links, escape).written()

    def fates(self, text: str, links: Links | None) -> MarkFates:
        """The fates of the marks in the translation that `translated` returns."""
        return self._writer(text, links, str).fates

    def _writer(self, text: str, links: Links | None, escape: Callable[[str], str]) -> "_Writer":
        places = _Places(self.text, text, links)
        writer = _Writer(places, self.text, text, escape)
        writer.write(self.marks, (0, len(self.text)), (0, len(places.words)))
        return writer


def composed(first: Links, second: Links) -> Links:
    """The alignment of a text with a translation of its translation."""
    by_place: dict[int, list[Span]] = defaultdict(list)
    for begin, end, first_of_it, last in first:
        for place in range(first_of_it, last):
            by_place[place].append((begin, end))
    return [
        (*span, first_of_it, last)
        for begin, end, first_of_it, last in second
        for span in dict.fromkeys(span for place in range(begin, end) for span in by_place[place])
    ]


_WHOLE: Final = Spans(kinds={kind: KINDS[kind] for kind in KINDS if kind not in ("amount", "emoji")})
"""Finds what no mark may divide, such as placeholders and addresses."""


def _words(text: str) -> list[Span]:
    """The words of a text, each span of `_WHOLE` as one, and each other sign."""
    found: list[Span] = [(span.begin, span.end) for span in _WHOLE.find(text)]
    ends, begins = [0, *(end for _, end in found)], [*(begin for begin, _ in found), len(text)]
    for first, last in zip(ends, begins, strict=True):
        for begin, end in split_words(text[first:last]):
            word = first + begin, first + end
            found += [word] if _is_word(text, *word) else [(place, place + 1) for place in range(*word)]
    return sorted(found)


def _is_word(text: str, begin: int, end: int) -> bool:
    return any(map(str.isalnum, text[begin:end]))


def _in_order(of: Sequence[Span], translated: Sequence[Span]) -> Iterator[tuple[int, int, int, int]]:
    """Links of as many words as both texts have, at the same share of their length."""
    num = max(len(of), len(translated)) if of and translated else 0
    for number in range(num):
        yield *of[number * len(of) // num], *translated[number * len(translated) // num]


class _Places:
    """The words of a translation that each mark covers, as ranges of their numbers."""

    def __init__(self, text: str, translation: str, links: Links | None) -> None:
        self._text, self.words = text, _words(translation)
        self._signs = ["" if _is_word(translation, *word) else translation[word[0]] for word in self.words]
        """Sign of each word, empty for a word of letters or digits."""
        self._of_text = _words(text)
        ends = [end for _, end in self.words]
        pairs: set[Span] = set()
        for begin, end, first, last in _in_order(self._of_text, self.words) if links is None else links:
            word = bisect_right(ends, first)  # pieces may begin with the space before a word
            while begin < end and word < len(self.words) and self.words[word][0] < last:
                pairs.add((end - 1, word))
                word += 1
        linked = {word for _, word in pairs}
        self._pairs = sorted((place, self._instead(place, word, linked)) for place, word in pairs)
        """Last character of a piece of the text, and a word that it is aligned with."""
        self._num_links = [0] * len(self.words)
        for _, word in self._pairs:
            self._num_links[word] += 1
        self._depths = [0] * len(self.words)
        """Number of marks around each word so far."""

    def _instead(self, place: int, word: int, linked: Container[int]) -> int:
        """The word that a piece is aligned with if it is not the sign of this number, but beside it."""
        if self._signs[word] and self._text[place].isalnum():
            for beside in (word + 1, word - 1):
                if 0 <= beside < len(self.words) and not self._signs[beside] and beside not in linked:
                    return beside
        return word

    def of(self, marks: Sequence[Mark], within: Span, span: Span, depth: int) -> list[tuple[int, int, Mark]]:
        """The ranges of marks, in order; their parent has the characters `within` and the words of `span`."""
        found: dict[int, Span] = {}
        by_size = sorted(range(len(marks)), key=lambda each: marks[each].begin - marks[each].end)
        for number in sorted(by_size, key=lambda each: not _is_open(marks[each])):
            mark = marks[number]
            if mark.begin < mark.end and (place := self._range(mark, within, span, depth)):
                found[number] = place
                self._depths[place[0] : place[1]] = [depth + 1] * (place[1] - place[0])
        ranges = sorted(found.values())
        for number in set(range(len(marks))).difference(found):
            gap = self._gap(marks[number], within, span, ranges)
            found[number] = gap, gap
        order = sorted(found, key=lambda each: (found[each][0], found[each][0] < found[each][1], each))
        return [(*found[number], marks[number]) for number in order]

    def _range(self, mark: Mark, within: Span, span: Span, depth: int) -> Span | None:
        """The words of a mark, side by side: those with most links to it; None if there are none."""
        begin, end = span
        if (mark.begin <= within[0] and mark.end >= within[1]) or begin == end:
            return span if begin < end else None
        shares: dict[int, float] = defaultdict(float)
        for _, word in self._pairs[slice(*self._pairs_of(mark))]:
            if begin <= word < end and self._depths[word] == depth:
                shares[word] += 1 / self._num_links[word]
        if _is_open(mark):
            return self._to_an_end(shares, span, depth, from_end=not mark.after)
        if not shares:
            return None
        best, sum_before, start = (0.0, 0, 0), 0.0, min(shares)
        for word in range(min(shares), max(shares) + 1):
            if self._depths[word] != depth:
                sum_before, start = 0.0, word + 1
                continue
            if sum_before <= 0:
                sum_before, start = 0.0, word
            sum_before += self._value(word, shares)
            best = max(best, (sum_before, -start, word + 1))
        likeliest = max(shares, key=lambda word: (shares[word], -word))
        found = (-best[1], best[2]) if best[0] > 0 else (likeliest, likeliest + 1)
        return self._with_signs_of(mark, *found)

    def _with_signs_of(self, mark: Mark, begin: int, end: int) -> Span:
        """The words without the signs at the ends, unless the mark has signs there, too."""
        first, last = self._text[mark.begin], self._text[mark.end - 1]
        while end - begin > 1 and self._signs[begin] and first.isalnum():
            begin += 1
        while end - begin > 1 and self._signs[end - 1] and last.isalnum():
            end -= 1
        return begin, end

    def _to_an_end(self, shares: dict[int, float], span: Span, depth: int, *, from_end: bool) -> Span | None:
        """The words of a mark that covers one end of its parent."""
        begin, end = span
        total, best = 0.0, (0.0, end if from_end else begin)
        for word in range(end - 1, begin - 1, -1) if from_end else range(begin, end):
            if self._depths[word] != depth:
                break
            total += self._value(word, shares)
            best = max(best, (total, word if from_end else word + 1), key=lambda each: each[0])
        found = (best[1], end) if from_end else (begin, best[1])
        return found if found[0] < found[1] else None

    def _value(self, word: int, shares: dict[int, float]) -> float:
        return shares.get(word, 0.0) - _LEAST_SHARE if self._num_links[word] else 0.0

    def _pairs_of(self, mark: Mark) -> Span:
        """The range of the pairs of a mark; a word that is marked in part counts as a whole."""
        first = bisect_right(self._of_text, mark.begin, key=lambda word: word[1])
        last = bisect_left(self._of_text, mark.end, key=lambda word: word[0])
        begin = min(mark.begin, self._of_text[first][0]) if first < len(self._of_text) else mark.begin
        end = max(mark.end, self._of_text[last - 1][1]) if last else mark.end
        return bisect_left(self._pairs, (begin,)), bisect_left(self._pairs, (end,))

    def _gap(self, mark: Mark, within: Span, span: Span, ranges: Sequence[Span]) -> int:
        """The number of the word that a mark without words stands before."""
        begin, end = span
        if mark.end <= within[0] or (_is_open(mark) and not mark.before):
            return begin
        if mark.begin >= within[1] or _is_open(mark):
            return end
        is_after = follows_a_word(mark, self._text)
        place = self._pairs_of(mark)[is_after]
        before = [word + 1 for _, word in self._pairs[max(0, place - 1) : place]]
        after = [word for _, word in self._pairs[place : place + 1]]
        near = before + after if is_after else after + before
        gap = min(max(begin, *near[:1]), end) if near else end
        number = bisect_left(ranges, gap, key=lambda each: each[1])  # the first that ends here or later
        if number < len(ranges) and ranges[number][0] < gap < ranges[number][1]:
            gap = ranges[number][is_after]
        return gap


def follows_a_word(mark: Mark, text: str) -> bool:
    """Whether no space is between a mark and what comes before it in its text."""
    return mark.begin > 0 and not text[mark.begin - 1].isspace()


def _is_open(mark: Mark) -> bool:
    """Whether a mark begins before its text, or ends after it."""
    return mark.begin < mark.end and not mark.is_kept and not (mark.before and mark.after)


class _Writer:
    """Writes a translation with its marks, from the beginning to the end."""

    def __init__(self, places: _Places, of: str, text: str, escape: Callable[[str], str]) -> None:
        self._places, self._of, self._text, self._escape = places, of, text, escape
        self._parts: list[str] = []
        self._at = 0
        self.fates = MarkFates(0, [], [])

    def write(self, marks: Sequence[Mark], within: Span, span: Span, depth: int = 0) -> None:
        """Write the translation up to the last of these marks."""
        words = self._places.words
        placed = self._places.of(marks, within, span, depth) if marks else []
        self._note(marks, placed)
        for first, last, mark in placed:
            if first == last:
                self._copy_to_gap(mark, first, span[1])
                self._parts.append(self._fitting(mark))
            else:
                self._copy(words[first][0])
                self._parts.append(mark.before)
            if mark.is_kept and first < last:
                self._at = words[last - 1][1]
            elif not mark.is_kept:
                self.write(mark.children, (mark.begin, mark.end), (first, last), depth + 1)
            if first < last:
                self._copy(words[last - 1][1])
            self._parts.append(mark.after)

    def _note(self, marks: Sequence[Mark], placed: Sequence[tuple[int, int, Mark]]) -> None:
        num, moved, emptied = self.fates
        moved += [
            mark.before or mark.after
            for mark, (*_, other) in zip(marks, placed, strict=True)
            if mark is not other
        ]
        emptied += [mark.before for first, last, mark in placed if first == last and mark.begin < mark.end]
        self.fates = MarkFates(num + len(marks), moved, emptied)

    def _copy_to_gap(self, mark: Mark, gap: int, end: int) -> None:
        """Copy the text up to a mark without words, which is before the word of number `gap`."""
        words, follows = self._places.words, follows_a_word(mark, self._of)
        if follows or gap == end:
            self._copy(words[gap - 1][1] if gap else 0)
        else:
            self._copy(words[gap][0])
        is_apart = (mark.is_kept or mark.begin == mark.end) and not follows and 0 < mark.begin < len(self._of)
        if is_apart and not self._behind.isalnum() and "".join(self._parts[-2:])[-1:].strip():
            self._parts.append(" ")

    def _fitting(self, mark: Mark) -> str:
        """The tag of a mark without words, with the space behind it, unless the end or a sign follows."""
        is_point = mark.begin == mark.end and self._behind in _NO_SPACE_BEFORE
        return mark.before.rstrip(" ") if is_point else mark.before

    @property
    def _behind(self) -> str:
        """The next character of the translation; empty at the end."""
        return self._text[self._at : self._at + 1]

    def _copy(self, end: int) -> None:
        if end > self._at:
            self._parts.append(self._escape(self._text[self._at : end]))
            self._at = end

    def written(self) -> str:
        """The whole."""
        self._copy(len(self._text))
        return "".join(self._parts)
