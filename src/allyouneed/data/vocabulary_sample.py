"""Samples of a corpus that a vocabulary can be learned from in bounded memory.

Learning takes about 150 bytes of memory for each byte of each distinct word, and hardly any for repetitions.
A sample is therefore bounded by the bytes of its distinct words, and not by its lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter

import numpy as np

Texts = Sequence[str]
"""What is in the sample together or not at all: both sides of a pair, or one."""

_SEED = 20170612
_EVERYTHING = 1 << 64
_DRAWN_AT_ONCE = 4_096
_HELD_WORDS = 1.5  # times the bytes of a sample, before the words that cannot be in it are forgotten
_WHITE_SPACE = re.compile(r"\s+")


class Sample:
    """The texts whose numbers are below a limit.

    The i-th text has the i-th number of a generator with a fixed seed. Whether a text is in the sample
    therefore depends on its place, and on neither processes nor threads.

    Args:
        limit: Numbers go up to 2^64.
        num_texts: Number of texts in the corpus.
    """

    def __init__(self, limit: int, num_texts: int) -> None:
        self.limit, self.num_texts = limit, num_texts

    @classmethod
    def draw(cls, corpus: Iterable[Texts], max_bytes: int) -> "Sample":
        """The largest sample whose distinct words have `max_bytes` bytes of UTF-8 or fewer.

        Each word counts with the space in front of it. The memory needed is in proportion to `max_bytes`.
        """
        words, num_texts = _DistinctWords(max_bytes), 0
        for texts, drawn in zip(corpus, _numbers(), strict=False):
            num_texts += 1
            if drawn < words.limit:
                words.add(chain.from_iterable(map(separate, texts)), drawn)
        words.forget(max_bytes)
        return cls(words.limit, num_texts)

    @property
    def is_everything(self) -> bool:
        """Whether no text is left out."""
        return self.limit == _EVERYTHING

    @property
    def num_drawn(self) -> int:
        """Number of texts in the sample."""
        return sum(drawn < self.limit for drawn in islice(_numbers(), self.num_texts))

    def select(self, corpus: Iterable[Texts]) -> Iterator[Texts]:
        """The texts of the corpus that are in the sample, in their order."""
        return (texts for texts, drawn in zip(corpus, _numbers(), strict=False) if drawn < self.limit)


def sampled_lines(
    read: Callable[[], Iterable[Texts]], max_bytes: int, told: Callable[[Sample], None]
) -> Iterator[str]:
    """The lines of a corpus to learn from: all of them, or those of a sample.

    Args:
        read: Reads the corpus from its start; is called twice.
        max_bytes: Bytes of distinct words in the sample; 0 takes everything.
        told: Is told of the sample before its first line, unless it is everything.
    """
    if not max_bytes:
        return chain.from_iterable(read())
    sample = Sample.draw(read(), max_bytes)
    if not sample.is_everything:
        told(sample)
    return chain.from_iterable(sample.select(read()))


def separate(text: str) -> list[str]:
    """The words of a text, and its white space too where that is more than single spaces.

    Tokenisers that keep letters apart from white space, but for one space in front, count the same bytes of
    distinct words, or up to twice as many where a word is now behind a space and now not.
    """
    words = text.split()
    return words if " ".join(words) == text else words + _WHITE_SPACE.findall(text)


class _DistinctWords:
    """Distinct words, and for each the lowest number of the texts that have it."""

    def __init__(self, max_bytes: int) -> None:
        self.limit = _EVERYTHING
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._lowest: dict[str, int] = {}

    def add(self, words: Iterable[str], drawn: int) -> None:
        """Take the words of a text."""
        lowest = self._lowest
        for word in words:
            known = lowest.get(word)
            if known is None:
                lowest[word] = drawn
                self._num_bytes += _num_bytes(word)
            elif drawn < known:
                lowest[word] = drawn
        if self._num_bytes > _HELD_WORDS * self._max_bytes:
            self.forget(self._max_bytes)

    def forget(self, max_bytes: int) -> None:
        """Lower the limit until the words have `max_bytes` at most; those of texts above it are forgotten."""
        if self._num_bytes <= max_bytes:
            return
        num_bytes = 0
        for word, drawn in sorted(self._lowest.items(), key=itemgetter(1)):
            num_bytes += _num_bytes(word)
            if num_bytes > max_bytes:
                self.limit = drawn
                break
        self._lowest = {word: drawn for word, drawn in self._lowest.items() if drawn < self.limit}
        self._num_bytes = len("".join(self._lowest).encode()) + len(self._lowest)


def _num_bytes(word: str) -> int:
    return len(word.encode()) + 1


def _numbers() -> Iterator[int]:
    """Evenly distributed numbers below 2^64."""
    generator = np.random.PCG64(_SEED)
    while True:
        yield from generator.random_raw(_DRAWN_AT_ONCE).tolist()
