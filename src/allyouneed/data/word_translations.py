"""Learns from sentence pairs which words translate each other, before there are any sub-words."""

import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.corpus import Pair
from allyouneed.data.store import PairStore, PairWriter, Sentences
from allyouneed.data.translation_table import learn_translation_table
from allyouneed.data.words import Span
from allyouneed.symbols import UNKNOWN

_MOST_PAIRS: Final = 100_000
"""Number of pairs that are learned from, drawn from all."""
_MOST_LINKS: Final = 1 << 23
_LEAST_PROBABILITY: Final = 0.3
"""Probability, in both directions, from which words translate each other."""
_MIN_COUNT: Final = 2
_MOST_WORDS: Final = 200
"""Number of words of a side from which a pair is passed over."""
_WORD: Final = re.compile(r"[^\W\d_](?:[\w'’-]*\w)?")


class WordTranslations:
    """Words and their translations. Words of the source count in any case.

    Args:
        translations: Word of the source, in small letters -> words of the target.
    """

    def __init__(self, translations: Mapping[str, frozenset[str]]) -> None:
        self.translations = translations

    def __len__(self) -> int:
        return len(self.translations)

    @classmethod
    def learn(cls, pairs: Iterable[Pair]) -> "WordTranslations":
        """Learn them by IBM model 1 in both directions from a sample of pairs, the same each time."""
        sample = _sampled(pairs)
        sources = _Numbers(each.lower() for source, _ in sample for each in source)
        targets = _Numbers(each for _, target in sample for each in target)
        texts = [(sources.of(map(str.lower, source)), targets.of(target)) for source, target in sample]
        there = _probable(texts, len(targets))
        back = _probable([(target, source) for source, target in texts], len(sources))
        found = dict[str, set[str]]()
        for source, target in there & {(source, target) for target, source in back}:
            found.setdefault(sources.words[source], set()).add(targets.words[target])
        return cls({source: frozenset(of_it) for source, of_it in found.items()})

    def aligned(self, source: str, target: str) -> list[tuple[Span, Span]]:
        """The words of a pair of texts that translate each other and occur once, in the source's order."""
        written = _once(target)
        found = list[tuple[Span, Span]]()
        for word, span in _once(source.lower()).items() if len(source.lower()) == len(source) else ():
            known = self.translations.get(word, frozenset()) & written.keys()
            if len(known) == 1:
                found.append((span, written[next(iter(known))]))
        taken = Counter(there for _, there in found)
        return [(here, there) for here, there in found if taken[there] == 1]


def _once(text: str) -> dict[str, Span]:
    """The words that a text has once, and where."""
    words = [*_WORD.finditer(text)]
    counts = Counter(word[0] for word in words)
    return {word[0]: word.span() for word in words if counts[word[0]] == 1}


def _sampled(pairs: Iterable[Pair]) -> list[tuple[list[str], list[str]]]:
    draw, sample = random.Random(0), list[tuple[list[str], list[str]]]()
    for number, words in enumerate(_split(pairs)):
        if number < _MOST_PAIRS:
            sample.append(words)
        elif (place := draw.randrange(number + 1)) < _MOST_PAIRS:
            sample[place] = words
    return sample


def _split(pairs: Iterable[Pair]) -> Iterator[tuple[list[str], list[str]]]:
    for pair in pairs:
        source, target = _WORD.findall(pair.source), _WORD.findall(pair.target)
        if 0 < len(source) < _MOST_WORDS and 0 < len(target) < _MOST_WORDS:
            yield source, target


class _Numbers:
    """A number for each word that occurs more than once; that of `UNKNOWN` for others."""

    def __init__(self, words: Iterable[str]) -> None:
        counts = Counter(words)
        known = sorted(word for word, count in counts.items() if count >= _MIN_COUNT)
        self._numbers = {word: number for number, word in enumerate(known, start=UNKNOWN + 1)}
        self.words = {number: word for word, number in self._numbers.items()}

    def __len__(self) -> int:
        return UNKNOWN + 1 + len(self._numbers)

    def of(self, words: Iterable[str]) -> list[int]:
        return [self._numbers.get(word, UNKNOWN) for word in words]


def _probable(texts: Sequence[tuple[list[int], list[int]]], num_targets: int) -> set[tuple[int, int]]:
    """The words of a source and a target that the source is probably translated as."""
    with tempfile.TemporaryDirectory() as folder:
        with PairWriter(Path(folder), vocabulary_size=1 << 32) as writer:
            sources, targets = (Sentences.of([text[side] for text in texts]) for side in (0, 1))
            writer.add(sources, targets, np.arange(len(texts)))
        table = learn_translation_table(PairStore(Path(folder)), num_targets, max_links=_MOST_LINKS)
    is_likely: NDArray[np.bool_] = (
        (table.probabilities >= _LEAST_PROBABILITY) & (table.sources > UNKNOWN) & (table.targets > UNKNOWN)
    )
    return {*zip(table.sources[is_likely].tolist(), table.targets[is_likely].tolist(), strict=True)}
