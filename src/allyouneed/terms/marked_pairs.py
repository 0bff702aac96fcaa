"""Sentence pairs with placeholders and annotated terms, from which a model learns what these mean.

In some pairs, words that translate each other are replaced on both sides by a symbol that stands for any
span; and after some words of a source stands the translation that they have in the target (Dinu et al.,
2019, "Training Neural Machine Translation to Apply Terminology Constraints").
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Final

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, Pair, Reader, clean_pairs
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.spans import Spans
from allyouneed.data.word_translations import WordTranslations
from allyouneed.data.words import Span
from allyouneed.errors import UsageError
from allyouneed.markup.marks import Links
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.task import Units
from allyouneed.terms.glossary import Term

PLACEHOLDERS: Final = ("◰", "◱", "◲", "◳", "◴", "◵", "◶", "◷")
"""Symbols that stand for spans; a single sign each, which hardly any text has."""
_BEGIN, _END = "⟪", "⟫"
_SHARE: Final = 0.2
"""Share of the pairs with placeholders, and of those with annotated terms."""
_MOST_WORDS: Final = 3
"""Most words of a pair that are replaced, and most that are annotated."""
_SHARE_OF_LONGER: Final = 0.3
"""Share of the annotated terms that are two words, where two stand side by side in both texts."""
_MIN_LETTERS: Final = 4
"""Letters of a word from which it is replaced or annotated: shorter ones are seldom terms."""

Aligned = tuple[Span, Span]
"""A part of a source, and its translation in the target."""


@dataclass(frozen=True)
class MarkedPairs(CorpusFiles):
    """Pairs of files, some with placeholders and annotated terms; the same ones each time."""

    placeholders: bool = False
    annotate_terms: bool = False

    @classmethod
    def of(cls, files: Reader, data: DataConfig) -> Reader:
        """The pairs as the settings want them; the files themselves if these want none, or are no pairs."""
        if not (isinstance(files, CorpusFiles) and (data.placeholders or data.annotate_terms)):
            return files
        settings = {each.name: getattr(files, each.name) for each in fields(files)}
        return cls(**settings, placeholders=data.placeholders, annotate_terms=data.annotate_terms)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All pairs; the report counts those that are changed."""
        pairs = super().read(report)
        return (pair if pair.dropped else self._marked(pair, report) for pair in pairs)

    @cached_property
    def _words(self) -> WordTranslations:
        report = CleaningReport()
        return WordTranslations.learn(clean_pairs(super().read(report), self.limits, report))

    @cached_property
    def _spans(self) -> Spans:
        return Spans()

    def _marked(self, pair: Pair, report: CleaningReport) -> Pair:
        draw = random.Random(f"{pair.source}\t{pair.target}")
        has_placeholders = draw.random() < _SHARE and self.placeholders
        has_terms = draw.random() < _SHARE and self.annotate_terms
        if not (has_placeholders or has_terms) or not {*PLACEHOLDERS, _BEGIN}.isdisjoint(pair.source):
            return pair
        found = [[span[:2] for span in self._spans.find(text)] for text in (pair.source, pair.target)]
        words = [
            parts
            for parts in self._words.aligned(pair.source, pair.target)
            if parts[0][1] - parts[0][0] >= _MIN_LETTERS
            and not any(
                _overlap(part, span) for part, of_it in zip(parts, found, strict=True) for span in of_it
            )
        ]
        spans = _equal(pair, *found) if has_placeholders else []
        chosen = draw.sample(words, min(len(words), draw.randint(1, _MOST_WORDS))) if has_placeholders else []
        replaced = _apart(sorted(spans + chosen))[: len(PLACEHOLDERS)]
        terms = _drawn([each for each in words if each not in replaced], pair, draw) if has_terms else []
        report.notes["pairs have placeholders"] += bool(replaced)
        report.notes["pairs have annotated terms"] += bool(terms)
        symbols = dict(zip(replaced, draw.sample(PLACEHOLDERS, len(replaced)), strict=True))
        annotations = {here[1]: pair.target[slice(*there)] for here, there in terms}
        source = _rewritten(pair.source, {here: symbol for (here, _), symbol in symbols.items()}, annotations)
        target = _rewritten(pair.target, {there: symbol for (_, there), symbol in symbols.items()}, {})
        return pair._replace(source=source, target=target)


def require_symbols(units: Units, data: DataConfig) -> None:
    """Check that the units of a model can write the signs of such pairs, if settings of data want these.

    Raises:
        UsageError: They cannot.
    """
    wanted = {
        "placeholders": (data.placeholders, PLACEHOLDERS),
        "annotate_terms": (data.annotate_terms, (_BEGIN, _END)),
    }
    for name, (is_wanted, signs) in wanted.items():
        sides = [units.source, units.target] if name == "placeholders" else [units.source]
        if is_wanted and any(UNKNOWN in ids for side in sides for ids in side.encode_batch([*signs])):
            raise UsageError(
                f"{name}: the model's sub-words cannot write {signs[0]}; leave it out, or learn others "
                "without tokenizer_from",
                settings=[name, "tokenizer_from"],
            )


def annotated(text: str, terms: Iterable[Term]) -> str:
    """A text with the first form of each term after it, as a model has learned it from `MarkedPairs`."""
    return _rewritten(text, {}, {term.end: term.forms[0] for term in terms})


def without_annotations(links: Links, terms: Iterable[Term]) -> Links:
    """The alignment of a text, from that of `annotated(text, terms)`."""
    notes, num_before = list[Span](), 0
    for term in terms:
        size = len(_annotation(term.forms[0]))
        notes.append((term.end + num_before, term.end + num_before + size))
        num_before += size

    def moved(place: int) -> int:
        return place - sum(min(place, end) - begin for begin, end in notes if begin < place)

    ends = ((moved(begin), moved(end), *there) for begin, end, *there in links)
    return [(begin, end, first, last) for begin, end, first, last in ends if begin < end]


def has_annotation(text: str) -> bool:
    """Whether a text has signs of annotations, of its own or of a model that has copied them."""
    return _BEGIN in text or _END in text


def _annotation(form: str) -> str:
    return f" {_BEGIN} {form} {_END}"


def _rewritten(text: str, symbols: Mapping[Span, str], annotations: Mapping[int, str]) -> str:
    """A text with symbols in place of spans, and with annotations after the places where they belong."""
    changes = [*symbols.items()]
    changes += [((end, end), _annotation(form)) for end, form in annotations.items()]
    pieces, place = list[str](), 0
    for (begin, end), piece in sorted(changes):
        assert place <= begin, "changes overlap"
        pieces += [text[place:begin], piece]
        place = end
    return "".join([*pieces, text[place:]])


def _equal(pair: Pair, here: Sequence[Span], there: Sequence[Span]) -> list[Aligned]:
    """The spans of a pair that both texts have once."""
    by_text = {pair.target[slice(*span)]: span for span in there}
    texts = {span: pair.source[slice(*span)] for span in here}
    return [
        (span, by_text[text])
        for span, text in texts.items()
        if text in by_text and pair.source.count(text) == pair.target.count(text) == 1
    ]


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _drawn(words: Sequence[Aligned], pair: Pair, draw: random.Random) -> list[Aligned]:
    """Words to be annotated, some of them with the next one, if both are neighbours in both texts."""
    found = list[Aligned]()
    joined = dict[Aligned, Aligned]()
    for first, second in pairwise(words):
        gaps = [text[a[1] : b[0]] for text, a, b in zip(pair[:2], first, second, strict=True)]
        if gaps == [" ", " "]:
            joined[first] = (first[0][0], second[0][1]), (first[1][0], second[1][1])
    for word in sorted(draw.sample(words, min(len(words), draw.randint(1, _MOST_WORDS)))):
        is_longer = word in joined and draw.random() < _SHARE_OF_LONGER
        found.append(joined[word] if is_longer else word)
    return _apart(found)


def _apart(parts: Sequence[Aligned]) -> list[Aligned]:
    """The parts, sorted, without those that overlap an earlier one in one of the texts."""
    found = list[Aligned]()
    for part in parts:
        if not any(_overlap(*sides) for each in found for sides in zip(part, each, strict=True)):
            found.append(part)
    return found
