"""Words that stand in for the spans of a text while it is translated, and are replaced by them afterwards."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from allyouneed.terms.glossary import Term
from allyouneed.terms.spans import Span, at_edges

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

    @classmethod
    def of(cls, text: str, spans: Sequence[Span], pool: Iterable[str]) -> "Masked":
        """Put words of a pool that the text does not have in place of its spans."""
        begin, end = at_edges(text, spans)
        words = (word for word in chain(pool, map("X{}X".format, count())) if word not in text)
        pieces, kept, place = list[str](), dict[str, str](), begin
        for span in spans:
            if not begin <= span.begin < end:
                continue
            word = next(words)
            kept[word] = text[span.begin : span.end]
            space = " " if text[max(place, span.begin - 1) : span.begin].isalnum() else ""
            pieces += [
                text[place : span.begin],
                space,
                word,
                " " if text[span.end : span.end + 1].isalnum() else "",
            ]
            place = span.end
        return cls("".join([*pieces, text[place:end]]), kept, text[:begin], text[end:])

    def terms(self) -> list[Term]:
        """The stand-ins as terms that are translated as they are."""
        found = re.finditer("|".join(map(_pattern, self.spans)) or r"(?!)", self.text)
        return [Term(*each.span(), (each[0],)) for each in found]

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

    @staticmethod
    def _places(word: str, translation: str) -> list[tuple[int, int]]:
        return [found.span() for found in re.finditer(_pattern(word), translation)]


def _pattern(word: str) -> str:
    return rf"(?<!\w){re.escape(word)}(?!\w)"


def _with_word(translation: str, word: str, text: str) -> str:
    """A translation with one more word, after as large a share of its words as the text has it."""
    words, of_text = translation.split(" ") if translation else [], text.split()
    number = next((place for place, each in enumerate(of_text) if word in each), 0)
    words.insert(round(number * len(words) / max(1, len(of_text))), word)
    return " ".join(words)
