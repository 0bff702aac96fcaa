"""Words as a fixed number of ids each, as input of a parser that writes as many symbols per word.

The first id is the word as written, the second its shape and ending, the optional third its lower-case form
or beginning; the optional fourth repeats the first. Rare features back off to coarser ones, in the end to a
shape (after Petrov et al. 2006, and the Berkeley parser's classes of unknown words), so no word is unknown.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Self

from allyouneed.data.tokenizer import surrogate_error
from allyouneed.data.vocabulary_file import SymbolVocabulary, VocabularyFile
from allyouneed.errors import UsageError
from allyouneed.symbols import CONTROL_SYMBOLS, UNKNOWN
from allyouneed.tasks.parsing.linearisation import form

_MIN_FREQUENCY = 2  # a single occurrence is too little to learn from
_SUFFIXES = ("tion", "able", "ible", "ing", "est", "ity", "ous", "ed", "ly", "er", "al", "s", "y", "")

Level = Callable[[str], str]
"""Maps a word to a symbol: kind of feature, space, value."""


def _shape(word: str) -> str:
    """Case (`A`: all capitals, `Aa`: first capital, `a`: first not, `.`: no letters), `0` for digits, `-`."""
    letters = [character for character in word if character.isalpha()]
    if not letters:
        case = "."
    elif not word[0].isupper():
        case = "a"
    else:
        case = "A" if len(letters) > 1 and all(map(str.isupper, letters)) else "Aa"
    return case + "0" * any(map(str.isdigit, word)) + "-" * ("-" in word)


_SHAPES = ["".join(parts) for parts in product(("A", "Aa", "a", "."), ("", "0"), ("", "-"))]


def _rare(word: str) -> str:
    suffix = next(suffix for suffix in _SUFFIXES if word.endswith(suffix))
    return f"rare {_shape(word)}~{suffix}"


def _ending(num_letters: int) -> Level:
    return lambda word: f"ending {_shape(word)}~{_small(word)[-num_letters:]}"


def _beginning(num_letters: int) -> Level:
    return lambda word: f"beginning {_small(word)[:num_letters]}"


def _small(word: str) -> str:
    """The word in lower case, with 0 for every digit."""
    return re.sub(r"\d", "0", word.lower())


_WORD: Final[tuple[Level, ...]] = (form, _rare, lambda word: f"rare {_shape(word)}")
_FEATURES: Final[tuple[tuple[Level, ...], ...]] = (
    _WORD,
    (*map(_ending, (3, 2, 1)), lambda word: f"ending {_shape(word)}"),
    (lambda word: form(_small(word)), *map(_beginning, (3, 2, 1, 0))),
    _WORD,
)
"""For each id of a word, its possible features, the finest first."""

UNKNOWN_WORD_CLASSES = [f"rare {shape}" for shape in _SHAPES]
"""The coarsest symbols of words, which every vocabulary of words has."""
_COARSEST = [*UNKNOWN_WORD_CLASSES, *(f"ending {shape}" for shape in _SHAPES), "beginning "]
"""The coarsest features, which every vocabulary has, so that each word has ids."""


def as_shown(symbol: str) -> str:
    """A symbol of an output, of a word only the word or the name of its class."""
    return symbol.partition(" ")[2] or symbol


def word_symbol(word: str, known: Container[str]) -> str:
    """The finest known symbol of a word: its form, or a class of rare words."""
    return _finest(_WORD, word, known)


def _finest(levels: Iterable[Level], word: str, known: Container[str]) -> str:
    return next(symbol for level in levels if (symbol := level(word)) in known)


@dataclass(frozen=True)
class WordFeatures(SymbolVocabulary):
    """Converts words to 2 to 4 ids each, as `Tokenizer` does for text. Made by `learn` or `load`."""

    file = VocabularyFile("allyouneed word features", 1, "vocabulary of words", ("ids_per_word",))
    ids_per_word: int

    @classmethod
    def learn(cls, lines: Iterable[str], vocab_size: int, ids_per_word: int) -> Self:
        """Learn the features that occur at least twice, or, if these do not fit, the more frequent ones.

        Args:
            lines: Lines of words separated by spaces.
            vocab_size: Maximum number of entries, including control symbols.
            ids_per_word: Number of ids per word, 2 to 4.

        Raises:
            UsageError: `vocab_size` is too small for the entries that every vocabulary has.
        """
        always = [*CONTROL_SYMBOLS, *_COARSEST]
        if vocab_size < len(always):
            raise UsageError(
                f"vocabulary size {vocab_size}: control symbols and shapes of words alone are {len(always)}; "
                f"use vocab_size {len(always)} or more",
                settings=["vocab_size"],
            )
        words = Counter(word for line in lines for word in line.split(" "))
        minimum = _MIN_FREQUENCY
        while len(learned := _learned(words, minimum, ids_per_word)) > vocab_size - len(always):
            minimum += max(1, minimum // 8)
        in_order = sorted(learned, key=lambda symbol: (-learned[symbol], symbol))
        return cls((*always, *in_order), ids_per_word)

    def encode(self, text: str) -> list[int]:
        """The ids of words separated by spaces; raises DataError for half a surrogate pair."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise surrogate_error(error) from None
        return [
            self.ids[_finest(levels, word, self.ids)]
            for word in text.split(" ")
            for levels in _FEATURES[: self.ids_per_word]
            if word
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The words, joined by spaces; for a word that was not learned, the name of its class."""
        return " ".join(symbol.partition(" ")[2] for symbol in self.word_symbols_of(ids))

    def word_symbols_of(self, ids: Sequence[int]) -> list[str]:
        """The symbol of each word in ids, as `word_symbol` gives it."""
        first = [token for token in ids if token > UNKNOWN][:: self.ids_per_word]
        return [self.symbols[token] for token in first]

    @property
    def word_symbols(self) -> list[str]:
        """All symbols that `word_symbol` may give a word."""
        return [symbol for symbol in self.symbols if symbol.startswith(("form ", "rare "))]

    @staticmethod
    def is_sound(symbols: list[str], ids_per_word: object) -> bool:
        """Whether these are the symbols and the setting of a file."""
        always = [*CONTROL_SYMBOLS, *_COARSEST]
        is_number = isinstance(ids_per_word, int) and ids_per_word in (2, 3, 4)
        return is_number and symbols[: len(always)] == always


def _learned(words: Mapping[str, int], minimum: int, ids_per_word: int) -> Counter[str]:
    """Features that occur at least `minimum` times; coarser ones count only words without a finer one."""
    learned: Counter[str] = Counter()
    for levels in _FEATURES[:ids_per_word]:
        waiting = dict(words)
        for level in levels[:-1]:
            counts: Counter[str] = Counter()
            for word, number in waiting.items():
                counts[level(word)] += number
            learned |= Counter({symbol: n for symbol, n in counts.items() if n >= minimum})
            waiting = {word: n for word, n in waiting.items() if level(word) not in learned}
    return learned
