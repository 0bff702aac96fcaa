"""Words that stand in for the spans of a text while it is translated, and are replaced by them afterwards."""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from allyouneed.data.spans import Span, at_edges
from allyouneed.data.words import Span as Range
from allyouneed.markup.marks import Links
from allyouneed.terms.glossary import Term

POOLS: Final[Sequence[Sequence[str]]] = (
    ("Boston", "Anna", "Berlin", "Peter", "Madrid", "Maria", "London", "Martin", "Lisa", "Paris", "Thomas"),
    ("35", "48", "27", "63", "74", "86", "92", "57", "41", "39", *map(str, range(101, 999, 13))),
)
"""Words that models copy, in the order in which they are tried: names, then numbers."""


@dataclass(frozen=True)
class Masked:
    """A text with a word in place of each span."""

    text: str
    spans: dict[str, str]
    """Stand-in -> the span, in the order of the text."""
    before: str = ""
    """Spans and white space before the text, which stay as they are."""
    after: str = ""
    places: tuple[Range, ...] = ()
    """Begin and end of each of these spans in the text with spans."""

    @classmethod
    def of(cls, text: str, spans: Sequence[Span], pool: Iterable[str]) -> "Masked":
        """Put words of a pool that the text does not have in place of its spans."""
        begin, end = at_edges(text, spans)
        words = (word for word in chain(pool, map("X{}X".format, count())) if word not in text)
        pieces, kept, place = list[str](), dict[str, str](), begin
        places = list[Range]()
        for span in spans:
            if not begin <= span.begin < end:
                continue
            word = next(words)
            kept[word] = text[span.begin : span.end]
            places.append((span.begin, span.end))
            space = " " if _is_of_word(text[max(place, span.begin - 1) : span.begin]) else ""
            pieces += [
                text[place : span.begin],
                space,
                word,
                " " if _is_of_word(text[span.end : span.end + 1]) else "",
            ]
            place = span.end
        return cls("".join([*pieces, text[place:end]]), kept, text[:begin], text[end:], tuple(places))

    def terms(self) -> list[Term]:
        """The stand-ins as terms that are translated as they are."""
        return [Term(*each.span(), (each[0],)) for each in self._stand_ins(self.text)]

    def is_whole(self, translation: str) -> bool:
        """Whether a translation has each stand-in exactly once."""
        return all(len(self._places(word, translation)) == 1 for word in self.spans)

    def restored(self, translation: str) -> str:
        """A translation with each span exactly once: spans that it repeats go, those that it lacks come in.

        A missing span comes in where the text has it: after as large a share of the words.
        """
        for word in self.spans:
            places = self._places(word, translation)
            for begin, end in reversed(places[1:]):
                translation = translation[:begin].rstrip() + translation[end:]
            if not places:
                translation = _with_word(translation, word, self.text)
        pattern = re.compile("|".join(map(_pattern, self.spans)) or r"(?!)")
        restored = pattern.sub(lambda found: self.spans[found[0]], translation)
        return self.before + restored + self.after

    def links(self, links: Links, translation: str) -> Links | None:
        """The alignment of the text with spans and the restored translation, from that of the masked ones.

        It is None if a stand-in was lost or repeated.
        """
        if not self.is_whole(translation):
            return None
        read = [each.span() for each in self._stand_ins(self.text)]
        written, restored, size = [each.span() for each in self._stand_ins(translation)], list[Range](), 0
        for begin, end in written:
            length = len(self.spans[translation[begin:end]])
            restored.append((begin + size, begin + size + length))
            size += length - (end - begin)
        to_source = _Moved([(0, 0), *read], [(len(self.before),) * 2, *self.places])
        lead = len(self.before)
        to_target = _Moved([(0, 0), *written], [(lead, lead), *((a + lead, b + lead) for a, b in restored)])
        return [(*to_source.range(a, b), *to_target.range(c, d)) for a, b, c, d in links]

    def _stand_ins(self, text: str) -> Iterator[re.Match[str]]:
        return re.finditer("|".join(map(_pattern, self.spans)) or r"(?!)", text)

    @staticmethod
    def _places(word: str, translation: str) -> list[Range]:
        return [found.span() for found in re.finditer(_pattern(word), translation)]


class _Moved:
    """Places in a text of which some parts have been replaced."""

    def __init__(self, parts: Sequence[Range], instead: Sequence[Range]) -> None:
        self._parts, self._instead = parts, instead

    def range(self, begin: int, end: int) -> Range:
        """Where a part of the text is, at least one character."""
        first, last = self._place(begin, is_end=False), self._place(end - 1, is_end=True) + 1
        return first, max(first + 1, last)

    def _place(self, place: int, *, is_end: bool) -> int:
        number = bisect_right(self._parts, (place, sys.maxsize)) - 1
        (_, end), (new_begin, new_end) = self._parts[number], self._instead[number]
        if place < end:
            return new_end - 1 if is_end else new_begin
        return place - end + new_end


def word_pairs(links: Links, text: str, translation: str) -> list[Range]:
    """The pairs of words, separated by white space, whose parts are aligned."""
    of_text, written = ([each.start() for each in re.finditer(r"\S+", side)] for side in (text, translation))
    found = ((bisect_right(of_text, a) - 1, bisect_right(written, c) - 1) for a, _, c, _ in links)
    return sorted({pair for pair in found if min(pair) >= 0})


def _is_of_word(character: str) -> bool:
    r"""Whether a character, if there is one, is `\w`, so that a stand-in beside it would not be found."""
    return character.isalnum() or character == "_"


def _pattern(word: str) -> str:
    return rf"(?<!\w){re.escape(word)}(?!\w)"


def _with_word(translation: str, word: str, text: str) -> str:
    """A translation with one more word, after as large a share of its words as the text has it."""
    words, of_text = translation.split(" ") if translation else [], text.split()
    number = next((place for place, each in enumerate(of_text) if word in each), 0)
    words.insert(round(number * len(words) / max(1, len(of_text))), word)
    return " ".join(words)
