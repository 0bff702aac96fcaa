"""Finds pairs of a corpus that have come before, in bounded memory."""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_FEWEST_SLOTS, _MOST_SLOTS = 1 << 16, 1 << 26
"""Numbers of slots: from 512 KiB to 512 MiB of memory."""
_FULL = 0.75
_MOVED_AT_ONCE = 1 << 18
_NUMBER = np.dtype("<u8")


class SeenPairs:
    """Remembers pairs by hashes of 64 bits; of 36 million pairs, two differ and have the same one in 3 of
    100,000 corpora.

    Args:
        most_slots: The most pairs to remember, a power of two; a quarter of them stays free. A corpus with
            more different pairs is forgotten when that many are known: repeats that are farther apart may
            stay.
    """

    def __init__(self, most_slots: int = _MOST_SLOTS) -> None:
        self._most_slots, self._num_known = most_slots, 0
        self._slots = np.zeros(min(_FEWEST_SLOTS, most_slots), np.uint64)  # 0 is a free one

    def add(self, pairs: Iterable[tuple[str, str]]) -> NDArray[np.bool_]:
        """Remember pairs. Returns which of them had not come before."""
        texts = (f"{source}\n{target}".encode() for source, target in pairs)
        digests = b"".join(hashlib.blake2b(text, digest_size=_NUMBER.itemsize).digest() for text in texts)
        hashes = np.maximum(np.frombuffer(digests, _NUMBER), np.uint64(1))
        is_new = np.zeros(len(hashes), np.bool_)
        different, first = np.unique(hashes, return_index=True)
        self._make_room(len(different))
        is_new[first] = self._place(different)
        return is_new

    def _make_room(self, num_pairs: int) -> None:
        num_slots = len(self._slots)
        while self._num_known + num_pairs > _FULL * num_slots:
            if num_slots == self._most_slots:
                self._slots[:], self._num_known = 0, 0
                return
            num_slots *= 2
        if num_slots > len(self._slots):
            known, self._slots = self._slots[self._slots > 0], np.zeros(num_slots, np.uint64)
            self._num_known = 0
            for begin in range(0, len(known), _MOVED_AT_ONCE):
                self._place(known[begin : begin + _MOVED_AT_ONCE])

    def _place(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Put different hashes into slots. Returns which of them were not in one."""
        is_new = np.zeros(len(hashes), np.bool_)
        pending, last = np.arange(len(hashes)), np.uint64(len(self._slots) - 1)
        slots = hashes & last
        while pending.size:
            wanted, found = hashes[pending], self._slots[slots]
            self._slots[slots[found == 0]] = wanted[found == 0]  # of several for a slot, the last one has it
            placed = self._slots[slots] == wanted
            is_new[pending[placed & (found == 0)]] = True
            pending, slots = pending[~placed], (slots[~placed] + np.uint64(1)) & last
        self._num_known += int(is_new.sum())
        return is_new
