"""Splits texts into sub-words by way of their words, each of which is split once.

A tokeniser puts a space before a text and never joins what stands on both sides of a space. So the ids of a
text are those of its words, one after another, wherever single spaces are its only white space. The words of
a chunk are found, looked up and replaced all at once, by array operations on its bytes.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.store import Sentences, places_of

_MOST_WORDS, _MOST_IDS = 1 << 18, 1 << 22
"""Numbers above which all words are forgotten: about 50 MB of memory."""
_KEY_NUMBERS = 4
_LONGEST = 8 * _KEY_NUMBERS - 1
"""Longest word that is found again, in bytes; the last byte of a key is the length."""
_FEWEST_SLOTS = 1 << 12
_SPACE, _LINE_END = ord(" "), ord("\n")
_FACTORS = tuple(
    map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93))
)
_MASKS = np.frombuffer(
    b"".join(b"\xff" * size + bytes(_LONGEST + 1 - size) for size in (*range(_LONGEST + 1), 0)), "<u8"
).reshape(-1, _KEY_NUMBERS)
"""The bits of a key that the bytes of a word take, by its length; none for longer words."""

Encode = Callable[[Sequence[str]], Sentences]


class WordCache:
    """Knows the ids of the words that it has seen. May be used by several threads at once."""

    def __init__(self, encode: Encode) -> None:
        self._encode, self._lock = encode, Lock()
        self._known = _Dictionary()

    def encode(self, texts: Sequence[str]) -> Sentences:
        """The ids of each text, as of `encode`; raises UnicodeEncodeError for half a surrogate pair."""
        content = "\n".join([*texts, ""]).encode()
        if not texts or content.count(b"\n") > len(texts):
            return self._encode(texts)
        return self.encode_lines(content)

    def encode_lines(self, content: bytes) -> Sentences:
        """The ids of the lines of a text in UTF-8, one at least, each of which ends with a line feed."""
        words = _words_of(content)
        with self._lock:
            if self._known.num_words > _MOST_WORDS or self._known.num_ids > _MOST_IDS:
                self._known = _Dictionary()
            entries, is_long = self._known.find(words), words.ends - words.begins > _LONGEST
            if (new := ((entries < 0) & ~is_long).nonzero()[0]).size:
                entries[new] = self._learn(content, words.at(new))
                self._known.place_new()
            size = self._known.num_words, self._known.num_ids
            if is_long.any():
                entries[is_long] = self._learn(content, words.at(is_long.nonzero()[0]))
            ids, lengths = self._known.ids_of(entries)
            self._known.num_words, self._known.num_ids = size  # long words are forgotten at once
        return Sentences(ids, np.add.reduceat(lengths, words.first_of_lines))

    def _learn(self, content: bytes, words: "_Words") -> NDArray[np.int64]:
        """Add words that are not known. Returns their entries."""
        numbers: dict[bytes, int] = {}
        each = [
            numbers.setdefault(content[begin:end], len(numbers))
            for begin, end in zip(words.begins.tolist(), words.ends.tolist(), strict=True)
        ]
        _, first = np.unique(each, return_index=True)
        ids = self._encode([text.decode() for text in numbers])
        return self._known.add(words.at(first), ids) + np.array(each)


class _Words(NamedTuple):
    """Words in the bytes of a chunk of lines."""

    begins: NDArray[np.int64]
    """Where each word begins: (words,)."""
    ends: NDArray[np.int64]
    """Where each word ends: (words,)."""
    keys: NDArray[np.uint64]
    """The bytes of each word, and its length; of a longer one than `_LONGEST`, only that: (words, 4)."""
    first_of_lines: NDArray[np.int64]
    """The first word of each line: (lines,)."""

    def at(self, which: NDArray[np.integer]) -> "_Words":
        return _Words(
            self.begins[which], self.ends[which], self.keys.take(which, axis=0), self.first_of_lines[:0]
        )


class _Dictionary:
    """Words, numbered as they come, and the ids of each; words are found by open addressing."""

    def __init__(self) -> None:
        self.num_words = self.num_ids = self._num_placed = 0
        self._slots = np.full(_FEWEST_SLOTS, -1, np.int32)
        self._keys = np.zeros((1, _KEY_NUMBERS), np.uint64)  # one at least, for slots that are free
        self._begins, self._lengths = np.empty(0, np.int64), np.empty(0, np.int64)
        self._ids = np.empty(0, np.uint32)

    def find(self, words: _Words) -> NDArray[np.int64]:
        """The entry of each word, or -1: (words,)."""
        entries = np.full(len(words.begins), -1, np.int64)
        pending, keys = np.arange(len(entries)), words.keys
        slots = self._first_slots(keys)
        while pending.size:
            found = self._slots.take(slots)
            differs = self._keys.take(found, axis=0, mode="wrap") ^ keys
            same = (differs[:, 0] | differs[:, 1] | differs[:, 2] | differs[:, 3]) == 0
            is_taken = found >= 0
            entries[pending[same & is_taken]] = found[same & is_taken]
            left = (is_taken & ~same).nonzero()[0]
            pending, keys, slots = pending[left], keys.take(left, axis=0), self._next(slots[left])
        entries[words.ends - words.begins > _LONGEST] = -1
        return entries

    def add(self, words: _Words, ids: Sentences) -> int:
        """Add words that are not known; see `place_new`. Returns the first entry; the others follow it."""
        first, first_id = self.num_words, self.num_ids
        self.num_words, self.num_ids = first + len(words.begins), first_id + len(ids.ids)
        self._keys = _with_room(self._keys, self.num_words)
        self._begins = _with_room(self._begins, self.num_words)
        self._lengths = _with_room(self._lengths, self.num_words)
        self._ids = _with_room(self._ids, self.num_ids)
        self._keys[first : self.num_words] = words.keys
        self._lengths[first : self.num_words] = ids.lengths
        self._begins[first : self.num_words] = first_id + ids.lengths.cumsum() - ids.lengths
        self._ids[first_id : self.num_ids] = ids.ids
        return first

    def ids_of(self, entries: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of words, one after another, and their number for each word."""
        lengths = self._lengths[entries]
        return self._ids[places_of(self._begins[entries], lengths)], lengths

    def place_new(self) -> None:
        """Let the words that have been added be found."""
        entries = np.arange(self._num_placed, self.num_words)
        if 2 * self.num_words > len(self._slots):
            self._slots = np.full(1 << (4 * self.num_words).bit_length(), -1, np.int32)
            entries = np.arange(self.num_words)
        self._num_placed = self.num_words
        slots = self._first_slots(self._keys[entries])
        while entries.size:
            free = self._slots[slots] < 0
            self._slots[slots[free]] = entries[free]  # of several for the same slot, the last one has it
            left = self._slots[slots] != entries
            entries, slots = entries[left], self._next(slots[left])

    def _first_slots(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        mixed = keys[:, 0] * _FACTORS[0]
        for number in range(1, _KEY_NUMBERS):
            mixed ^= keys[:, number] * _FACTORS[number]
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _FACTORS[0]
        return (mixed >> np.uint64(40)).astype(np.intp) & (len(self._slots) - 1)

    def _next(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        return (slots + 1) & (len(self._slots) - 1)


def _with_room(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, or a larger one that begins with its content."""
    if len(array) >= size:
        return array
    larger = np.empty((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _words_of(content: bytes) -> _Words:
    """The words of lines; a line with other white space than single spaces between words is one word."""
    padded = np.frombuffer(content + bytes(8 * _KEY_NUMBERS), np.uint8)
    text = padded[: len(content)]
    ends = ((text == _SPACE) | (text == _LINE_END)).nonzero()[0]
    begins = np.concatenate(([0], ends[:-1] + 1))
    is_last = text[ends] == _LINE_END
    line_ends = ends[is_last]
    lines = is_last.cumsum() - is_last  # the line of each word
    is_first = np.concatenate(([True], is_last[:-1]))
    is_whole = np.zeros(len(line_ends), np.bool_)
    is_whole[lines[(begins == ends) & ~(is_first & is_last)]] = True
    is_whole[np.searchsorted(line_ends, _other_white_space(padded, len(content)))] = True
    if is_whole.any():
        in_whole = is_whole[lines]
        begins[in_whole & is_last] = begins[is_first][is_whole]
        kept = ~in_whole | is_last
        begins, ends, is_last = begins[kept], ends[kept], is_last[kept]
    return _Words(
        begins, ends, _keys(padded, begins, ends), np.concatenate(([0], is_last.nonzero()[0][:-1] + 1))
    )


def _other_white_space(text: NDArray[np.uint8], size: int) -> NDArray[np.intp]:
    """Where white space other than spaces and line feeds may be in UTF-8 of this size."""
    places = ((text < _SPACE) & (text != _LINE_END)).nonzero()[0]
    leading = ((text == 0xC2) | ((text >= 0xE1) & (text <= 0xE3))).nonzero()[0]
    first, second, third = text[leading], text[leading + 1], text[leading + 2]
    is_one = (first == 0xC2) & ((second == 0x85) | (second == 0xA0))
    is_one |= (first == 0xE1) & ((second == 0x9A) | (second == 0xA0))
    general = (third <= 0x8A) | (third == 0xA8) | (third == 0xA9) | (third == 0xAF)  # U+2000 and so on
    is_one |= (first == 0xE2) & ((second == 0x81) | (second == 0x80) & general)
    is_one |= (first == 0xE3) & (second == 0x80) & (third == 0x80)
    return np.concatenate((places[places < size], leading[is_one]))


def _keys(
    padded: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    at_each_byte = np.ndarray((len(padded) - 8 * _KEY_NUMBERS + 1,), f"V{8 * _KEY_NUMBERS}", padded, 0, (1,))
    sizes = np.minimum(ends - begins, _LONGEST + 1)
    keys: NDArray[np.uint64] = at_each_byte[begins].view("<u8").reshape(-1, _KEY_NUMBERS) & _MASKS.take(
        sizes, axis=0
    )
    keys[:, -1] |= sizes.astype(np.uint64) << np.uint64(56)
    return keys
