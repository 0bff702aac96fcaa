"""Samples a corpus, so that a vocabulary can be learned from it in bounded memory.

Learning takes about 150 bytes of memory per byte of each distinct word, and hardly any for repetitions. So
the bytes of its distinct words limit a sample, not its number of lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter

import numpy as np

Texts = Sequence[str]
"""Lines that are sampled together: both sides of a pair, or a single line."""

_SEED = 20170612
_EVERYTHING = 1 << 64
_DRAWN_AT_ONCE = 4_096
_HELD_WORDS = 1.5  # times the bytes of a sample, before the words that cannot be in it are forgotten
_WHITE_SPACE = re.compile(r"\s+")


class Sample:
    """A sample: the texts whose random numbers are below a limit, at most 2^64.

    The i-th text gets the i-th number of a generator with a fixed seed, so a sample does not depend on the
    number of processes or threads.
    """

    def __init__(self, limit: int, num_texts: int) -> None:
        self.limit, self.num_texts = limit, num_texts

    @classmethod
    def draw(cls, corpus: Iterable[Texts], max_bytes: int) -> "Sample":
        """The largest sample whose distinct words have at most `max_bytes` bytes of UTF-8.

        Each word counts with the space before it. Memory grows in proportion to `max_bytes`.
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
        """Whether the sample contains every text."""
        return self.limit == _EVERYTHING

    @property
    def num_drawn(self) -> int:
        """Number of texts in the sample."""
        return sum(drawn < self.limit for drawn in islice(_numbers(), self.num_texts))

    def select(self, corpus: Iterable[Texts]) -> Iterator[Texts]:
        """The texts of the corpus that are in the sample, in order."""
        return (texts for texts, drawn in zip(corpus, _numbers(), strict=False) if drawn < self.limit)


def sampled_lines(
    read: Callable[[], Iterable[Texts]], max_bytes: int, told: Callable[[Sample], None]
) -> Iterator[str]:
    """The lines of a corpus to learn a vocabulary from: all lines, or a sample with `max_bytes` of distinct
    words.

    The corpus is read twice, unless `max_bytes` is 0. `told` is called with a sample before its first line.
    """
    if not max_bytes:
        return chain.from_iterable(read())
    sample = Sample.draw(read(), max_bytes)
    if not sample.is_everything:
        told(sample)
    return chain.from_iterable(sample.select(read()))


def separate(text: str) -> list[str]:
    """The words of a text, and its white space where that is more than single spaces.

    A tokeniser has the same bytes of distinct words, or up to twice as many if words occur both with and
    without a space before them.
    """
    words = text.split()
    return words if " ".join(words) == text else words + _WHITE_SPACE.findall(text)


class _DistinctWords:
    """Distinct words, each with the lowest number of the texts that contain it."""

    def __init__(self, max_bytes: int) -> None:
        self.limit = _EVERYTHING
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._lowest: dict[str, int] = {}

    def add(self, words: Iterable[str], drawn: int) -> None:
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
        """Lower the limit until the words have at most `max_bytes`; drop words of texts above the limit."""
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
    generator = np.random.PCG64(_SEED)
    while True:
        yield from generator.random_raw(_DRAWN_AT_ONCE).tolist()
