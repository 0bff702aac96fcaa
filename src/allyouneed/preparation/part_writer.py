"""Writes a part of DATA: the ids and the cleaned text of its pairs, as often as each is wanted."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, DropReason
from allyouneed.data.lines import encode_lines
from allyouneed.data.schedule import mixed
from allyouneed.data.store import PairWriter, Sentences
from allyouneed.data.subword_dropout import SubwordDropout
from allyouneed.language_codes import Direction
from allyouneed.preparation.encoding import Chunk, EncodedChunk
from allyouneed.preparation.prepared_data import text_path
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.catalogue import task_named

_FEWEST_SLOTS, _MOST_SLOTS = 1 << 16, 1 << 26
"""Numbers of slots: from 512 KiB to 512 MiB of memory."""
_FULL = 0.75
_MOVED_AT_ONCE = 1 << 18
_NUMBER = np.dtype("<u8")
_SHORTEST_FOR_RATIO_TOKENS = 20  # for shorter pairs the ratio means little
_UNKNOWN_UNITS = "targets have units that are not in the vocabulary"
_COPIED = "further copies of pairs, by the weights of their files"


class SeenPairs:
    """Remembers pairs by hashes of 64 bits; of 36 million pairs, two differ and have the same one in 3 of
    100,000 corpora.

    At most `most_slots`, a power of two, are remembered, a quarter of which stays free. A corpus with more
    different pairs is forgotten when that many are known: repeats that are farther apart may stay.
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


class PartWriter:
    """Writes chunks of a part, "train" or "valid", or goes on where its files end.

    Args:
        directory: The DATA directory.
        part: The part.
        vocab_size: Size of the larger vocabulary.
        source_features: Number of features of a source's vectors; 0 if sources are ids.
        config: Data settings.
        weights: File and direction -> how often each of its pairs is wanted, on average; by default once.
        report: Counts the pairs that are dropped here.
        dropouts: Subword dropout of the two sides; none by default.
    """

    def __init__(
        self,
        directory: Path,
        part: str,
        vocab_size: int,
        source_features: int,
        config: DataConfig,
        weights: Mapping[tuple[str, Direction | None], float],
        report: CleaningReport,
        dropouts: tuple[SubwordDropout, SubwordDropout] | None = None,
    ) -> None:
        self.report = report
        self._dropouts = dropouts
        self._config, self._weights = config, weights
        self._sides_are_alike = task_named(config.task).sides_are_alike
        with ExitStack() as files:
            self._ids = files.enter_context(
                PairWriter(directory / part, vocabulary_size=vocab_size, source_features=source_features)
            )
            self._sources = files.enter_context(text_path(directory, part, "source").open("ab"))
            self._targets = files.enter_context(text_path(directory, part, "target").open("ab"))
            self._files = files.pop_all()

    def add(self, encoded: EncodedChunk) -> None:
        """Write a chunk."""
        wanted = self._wanted(encoded.chunk, self._kept(encoded))
        copies = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # from 0, of each pair
        at_once = max(1, len(encoded.chunk.pairs))  # as many copies as there are pairs
        for begin in range(0, len(wanted), at_once):
            part = slice(begin, begin + at_once)
            self._write(encoded, wanted[part], copies[part])

    def _write(self, encoded: EncodedChunk, wanted: NDArray[np.intp], copies: NDArray[np.intp]) -> None:
        chunk = encoded.chunk
        numbers = np.array(chunk.line_numbers, np.int64)[wanted]
        source, target = encoded.source.sentences.take(wanted), encoded.target.sentences.take(wanted)
        if self._dropouts:
            places = mixed(mixed(numbers) + copies.astype(np.uint64))
            source = self._segmented(self._dropouts[0], source, places)
            target = self._segmented(self._dropouts[1], target, mixed(places))
        self._ids.add(source, target, numbers)
        if (unknown := (target.ids == UNKNOWN).nonzero()[0]).size:
            with_some = np.unique(np.searchsorted(target.lengths.cumsum(), unknown, side="right"))
            self.report.notes[_UNKNOWN_UNITS] += len(with_some)
        pairs = [chunk.pairs[index] for index in wanted.tolist()]
        self._sources.write(encode_lines([pair.source for pair in pairs]))
        self._targets.write(encode_lines([pair.target for pair in pairs]))

    def flush(self) -> None:
        """Hand everything to the system."""
        self._sources.flush()
        self._targets.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._files.__exit__(*raised)

    def _kept(self, encoded: EncodedChunk) -> NDArray[np.bool_]:
        """Which pairs have the right languages and lengths; the others are counted in the report."""
        lengths = encoded.source.sentences.lengths, encoded.target.sentences.lengths
        longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
        with np.errstate(over="ignore"):  # a limit that is infinite
            uneven = longer > self._config.max_length_ratio * shorter
        kept = np.ones(len(longer), np.bool_)
        for reason, is_so in (
            (DropReason.EMPTY_SOURCE, lengths[0] == 0),  # as SentencePiece normalises some texts away
            (DropReason.EMPTY_TARGET, lengths[1] == 0),
            (DropReason.LANGUAGE, ~(encoded.source.passes & encoded.target.passes)),
            (DropReason.TOO_MANY_TOKENS, longer > self._config.max_tokens),
            (DropReason.TOKEN_RATIO, uneven & (longer > _SHORTEST_FOR_RATIO_TOKENS) & self._sides_are_alike),
        ):
            self._drop(encoded.chunk, kept & is_so, reason)
            kept &= ~is_so
        return kept

    def _wanted(self, chunk: Chunk, kept: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The pairs to write, one after another; a pair of a file with a weight as often as that says."""
        if not self._weights:
            return kept.nonzero()[0]
        weights = np.array([self._weights.get((pair.file, pair.direction), 1.0) for pair in chunk.pairs])
        # A number from 0 to 1 for each place in the text.
        drawn = (mixed(chunk.line_numbers) >> np.uint64(11)) / 2.0**53
        copies = np.floor(weights + drawn).astype(np.intp) * kept
        self._drop(chunk, kept & (copies == 0), DropReason.WEIGHT)
        if num_more := int((copies - 1).clip(0).sum()):
            self.report.notes[_COPIED] += num_more
        return np.repeat(np.arange(len(copies)), copies)

    def _segmented(
        self, dropout: SubwordDropout, sentences: Sentences, places: NDArray[np.uint64]
    ) -> Sentences:
        """Sentences in other sub-words, but for those that would be too long for the model."""
        found, count = dropout.applied(sentences, places), len(places)
        both = Sentences(
            np.concatenate((found.ids, sentences.ids)), np.concatenate((found.lengths, sentences.lengths))
        )
        is_too_long = found.lengths > self._config.max_tokens
        return both.take(np.arange(count) + count * is_too_long)

    def _drop(self, chunk: Chunk, which: NDArray[np.bool_], reason: DropReason) -> None:
        for index in which.nonzero()[0].tolist():
            self.report.drop(reason, chunk.pairs[index])


def without_repeats(chunks: Iterator[Chunk], report: CleaningReport) -> Iterator[Chunk]:
    """The chunks without pairs that have come before, which are counted in the report."""
    seen = SeenPairs()
    for chunk in chunks:
        is_new = seen.add((pair.source, pair.target) for pair in chunk.pairs)
        for index in (~is_new).nonzero()[0].tolist():
            report.drop(DropReason.REPEAT, chunk.pairs[index])
        yield chunk if is_new.all() else chunk.where(is_new)
