"""Sentence pairs as token ids in memory-mapped shards, as training reads them (paper 5.1).

A store is a folder with `header.json` and little-endian arrays: for each side, the ids of all sentences
without start and end symbols, in shards, and the offset of each sentence; and the input line of each pair.
Sources may be vectors of features instead of ids; "tokens" then are vectors.
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.vectors import Vectors
from allyouneed.errors import DiskError, ModelError
from allyouneed.symbols import END, PADDING

HEADER = "header.json"
FORMAT = "allyouneed sentence pairs"
FORMAT_VERSION = 1
SHARD_TOKENS = 1 << 28
_COUNTED_TOKENS = 1 << 22  # at a time; each takes 8 bytes of memory
LINE_NUMBERS = "line_numbers.bin"
STORED_INT64 = np.dtype("<i8")
ID_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


def vectors_of(num_features: int) -> np.dtype[Any]:
    """The type of a vector: an array of it has one more axis, for the features."""
    return np.dtype(("<f4", (num_features,)))


WhenRead = Callable[[Path, NDArray[Any]], None]


class Sentences(NamedTuple):
    """Sentences of one side, one after another."""

    ids: NDArray[Any]
    """The ids of all sentences: (tokens,); or their vectors: float32 (vectors, features)."""
    lengths: NDArray[np.integer]
    """The number of ids of each sentence: (sentences,)."""

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> Self:
        """The sentences, given one by one."""
        lengths = np.fromiter(map(len, sentences), np.int32, len(sentences))
        if vectors := [each.values for each in sentences if isinstance(each, Vectors)]:
            return cls(np.concatenate(vectors), lengths)
        ids = np.fromiter(chain.from_iterable(sentences), np.int64, int(lengths.sum()))
        return cls(ids, lengths)

    def after(self, first: Self) -> Self:
        """The sentences, each with the ids of another before it, which may be empty."""
        begins = self.lengths.cumsum(dtype=np.int64) - self.lengths
        ids = np.insert(self.ids, np.repeat(begins, first.lengths), first.ids)
        return type(self)(ids, self.lengths + first.lengths)

    def take(self, which: NDArray[np.integer]) -> Self:
        """Some of the sentences, in this order; a sentence may be taken several times."""
        if np.array_equal(which, np.arange(len(self.lengths))):
            return self
        begins = self.lengths.cumsum(dtype=np.int64) - self.lengths
        return type(self)(self.ids[places_of(begins[which], self.lengths[which])], self.lengths[which])


def places_of(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The places of ranges, one after another: (sum of the lengths,)."""
    ends = lengths.cumsum(dtype=np.int64)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


Guide = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]
"""Weights of source positions for each target position, as an `AlignmentGuide` gives them."""


class PairStore:
    """Reads a store through memory maps. Pairs are numbered from 0 in the order they were written.

    `when_read` is called with the path and the numbers of a shard, or of the line numbers, before the first
    of them is read, and may raise an error.

    Attributes:
        num_pairs: Number of pairs.
        source: The source sentences.
        target: The target sentences.
        source_lengths: Number of tokens per source sentence, without control symbols: int32 (num_pairs,).
        target_lengths: The same of the target sentences.
        facts: The keys that the writer added to the header.
        num_replayed: Number of pairs, the last ones, that come from another store; see `with_replayed`.
        guide: Function that tells where target tokens come from, given sources and targets; see
            `guided_by`.

    Raises:
        ModelError: A file is missing, damaged, of the wrong size, or of another version.
        DiskError: A file cannot be read.
    """

    def __init__(self, directory: Path, when_read: WhenRead = lambda path, numbers: None) -> None:
        header = _read_header(directory / HEADER)
        self.num_pairs, self.num_replayed = header.num_pairs, 0
        self.facts = header.facts
        self._line_numbers = [_File(directory / LINE_NUMBERS, STORED_INT64, header.num_pairs, when_read)]
        self.source = StoreSide(directory, "source", header, when_read)
        self.target = StoreSide(directory, "target", header, when_read)
        self.source_lengths = self.source.lengths
        self.target_lengths = self.target.lengths
        self.guide: Guide | None = None

    def guided_by(self, guide: Guide) -> "PairStore":
        """A store of the same pairs, whose batches tell where target tokens come from."""
        guided = copy.copy(self)
        guided.guide = guide
        return guided

    def with_replayed(self, other: "PairStore") -> "PairStore":
        """A store of these pairs, followed by those of another; both are read where they are."""
        joined = copy.copy(self)
        joined.num_pairs, joined.num_replayed = self.num_pairs + other.num_pairs, other.num_pairs
        joined._line_numbers = [*self._line_numbers, *other._line_numbers]
        joined.source = self.source.followed_by(other.source)
        joined.target = self.target.followed_by(other.target)
        joined.source_lengths, joined.target_lengths = joined.source.lengths, joined.target.lengths
        return joined

    @property
    def line_numbers(self) -> NDArray[np.int64]:
        """Number of the input line of each pair: int64 (num_pairs,)."""
        own, *others = (file.numbers for file in self._line_numbers)
        return np.concatenate((own, *others)) if others else own

    def text_of(self, index: int) -> str:
        """The text that has the line of a pair, for messages."""
        return "replayed text" if index >= self.num_pairs - self.num_replayed else "training text"


class StoreSide:
    """Reads the ids, or vectors, and offsets of one side through memory maps."""

    def __init__(self, directory: Path, side: str, header: "_Header", when_read: WhenRead) -> None:
        path = offsets_path(directory, side)
        shard_tokens = header.shard_tokens[side]
        self._offsets = _map(path, STORED_INT64, header.num_pairs + 1)
        dtype = header.dtypes[side]
        self._of_batches = dtype if dtype.shape else np.dtype(np.int64)
        self._padding = np.nan if dtype.shape else PADDING
        self._shards = [
            _File(shard_path(directory, side, shard), dtype, num_tokens, when_read)
            for shard, num_tokens in enumerate(shard_tokens)
        ]
        shard_bounds = np.cumsum([0, *shard_tokens])
        lengths = np.diff(self._offsets)
        if (
            not np.array_equal(self._offsets[[0, -1]], shard_bounds[[0, -1]])
            or lengths.min(initial=0) < 0
            or self._offsets.max() > shard_bounds[-1]  # or else the differences may have overflowed
            or not np.array_equal(self._offsets[np.searchsorted(self._offsets, shard_bounds)], shard_bounds)
        ):
            raise ModelError(f"{path}: is damaged; prepare the data again")
        self._shard_starts = shard_bounds[:-1]
        self.lengths = lengths.astype(np.int32)

    def followed_by(self, other: "StoreSide") -> "StoreSide":
        """Join these sentences with those of another store, which follow."""
        joined, end = copy.copy(self), self._offsets[-1]
        joined._offsets = np.concatenate((self._offsets, other._offsets[1:] + end))
        joined._shards = [*self._shards, *other._shards]
        joined._shard_starts = np.concatenate((self._shard_starts, other._shard_starts + end))
        joined.lengths = np.concatenate((self.lengths, other.lengths))
        return joined

    def counts(self, vocab_size: int) -> NDArray[np.int64]:
        """How often each id, or each feature, occurs: (vocab_size,)."""
        if self._of_batches.shape:  # every feature is in every vector
            return np.full(vocab_size, self._offsets[-1])
        counts = np.zeros(vocab_size, np.int64)
        for shard in (file.numbers for file in self._shards):
            for start in range(0, len(shard), _COUNTED_TOKENS):
                counts += np.bincount(shard[start : start + _COUNTED_TOKENS], minlength=vocab_size)
        return counts

    def sentence(self, index: int) -> NDArray[Any]:
        """The ids, or vectors, of a sentence."""
        start, end = self._offsets[index], self._offsets[index + 1]
        shard = int(self._shard_of(start))
        first = self._shard_starts[shard]
        return self._shards[shard].numbers[start - first : end - first]

    def gather(self, indices: ArrayLike) -> NDArray[Any]:
        """Sentences side by side, padded to the longest: int64 (rows, longest), or float32 with features.

        Padding is NaN in every feature: no vector that is stored has one.
        """
        indices = np.asarray(indices)
        lengths = self.lengths[indices]
        columns = np.arange(lengths.max(initial=0))
        inside = columns < lengths[:, None]  # (rows, longest)
        positions = (self._offsets[indices][:, None] + columns)[inside]  # (tokens,)
        padded = np.full(inside.shape, self._padding, self._of_batches)
        padded[inside] = self._tokens_at(positions)
        return padded

    def _tokens_at(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        shards = self._shard_of(positions)
        tokens = np.empty(len(positions), self._of_batches)
        for shard in np.unique(shards):
            here = shards == shard
            tokens[here] = self._shards[shard].numbers[positions[here] - self._shard_starts[shard]]
        return tokens

    def _shard_of(self, positions: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._shard_starts, positions, side="right") - 1


class _File:
    """A file of numbers, which is mapped at once and told of before it is read."""

    def __init__(self, path: Path, dtype: np.dtype[Any], count: int, when_read: WhenRead) -> None:
        self.path, self._numbers, self._when_read = path, _map(path, dtype, count), when_read

    @cached_property
    def numbers(self) -> NDArray[Any]:
        self._when_read(self.path, self._numbers)
        return self._numbers


@dataclass(frozen=True)
class _Header:
    dtypes: Mapping[str, np.dtype[Any]]
    num_pairs: int
    shard_tokens: Mapping[str, list[int]]
    facts: dict[str, Any]


def require_finite(path: Path, vectors: NDArray[np.floating]) -> None:
    """Raise ModelError, with the name of the shard, if a feature is not finite."""
    if not np.isfinite((vectors.min(initial=0), vectors.max(initial=0))).all():
        raise ModelError(f"{path}: holds features that are not finite; prepare the data again")


def require_ids_below(path: Path, ids: NDArray[np.integer], vocab_size: int) -> None:
    """Raise ModelError, with the name of the shard, if an id is a control symbol or not in the vocabulary."""
    smallest, largest = (int(ids.min()), int(ids.max())) if ids.size else (END + 1, END + 1)
    if smallest <= END or largest >= vocab_size:
        raise ModelError(
            f"{path}: holds ids from {smallest} to {largest}, {END + 1} to {vocab_size - 1} are possible; "
            "prepare the data again"
        )


def _read_header(path: Path) -> _Header:
    try:
        header = json.loads(path.read_bytes())
        kind, version = header["format"], header["format_version"]
        if (kind, version) == (FORMAT, FORMAT_VERSION):
            ids, num_features = ID_DTYPES[header["dtype"]], int(header.get("source_features", 0))
            return _Header(
                {"source": vectors_of(num_features) if num_features else ids, "target": ids},
                int(header["num_pairs"]),
                {side: [int(count) for count in header[f"{side}_shards"]] for side in ("source", "target")},
                dict(header["facts"]),
            )
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; prepare the data again") from None
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise ModelError(f"{path}: is damaged; prepare the data again") from None
    raise ModelError(
        f"{path}: format {kind!r} {version}, but this version reads {FORMAT!r} {FORMAT_VERSION};"
        " upgrade allyouneed or prepare the data again"
    )


def _map(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    try:
        size = path.stat().st_size
        if size == count * dtype.itemsize:
            # An empty file cannot be mapped.
            return np.asarray(np.memmap(path, dtype, mode="r", shape=count)) if count else np.empty(0, dtype)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; prepare the data again") from None
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from error
    raise ModelError(f"{path}: has {size} bytes, {count * dtype.itemsize} expected; prepare the data again")


def shard_path(directory: Path, side: str, shard: int) -> Path:
    """File of the ids in a shard of a side."""
    return directory / f"{side}-{shard:05}.bin"


def offsets_path(directory: Path, side: str) -> Path:
    """File of the offsets of the sentences of a side."""
    return directory / f"{side}_offsets.bin"


class PairWriter:
    """Writes a store, some pairs at a time. The header is written last, if the block succeeds.

    Args:
        directory: Folder to create, or one in which a writer of the same pairs was interrupted.
        vocabulary_size: Size of the larger vocabulary, which decides the width of ids.
        facts: More keys for the header, such as sha256 hashes; read when the block ends.
        shard_tokens: Maximum number of tokens of one side in a shard, unless a single sentence has more.
        source_features: Number of features of a source's vectors; 0 if sources are ids.
    """

    def __init__(
        self,
        directory: Path,
        *,
        vocabulary_size: int,
        facts: Mapping[str, Any] | None = None,
        shard_tokens: int = SHARD_TOKENS,
        source_features: int = 0,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._dtype_name = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        self._facts = {} if facts is None else facts
        self._source_features = source_features
        dtype = ID_DTYPES[self._dtype_name]
        of_source = vectors_of(source_features) if source_features else dtype
        most = max(1, shard_tokens // max(1, source_features))
        self._source = _SideWriter(directory, "source", vocabulary_size, of_source, most)
        self._target = _SideWriter(directory, "target", vocabulary_size, dtype, shard_tokens)
        self._num_pairs = _num_bytes(directory / LINE_NUMBERS) // STORED_INT64.itemsize
        nothing = Sentences.of([])
        self.add(nothing._replace(ids=np.empty(0, of_source)), nothing, [])  # makes the files

    def add(self, source: Sentences, target: Sentences, line_numbers: ArrayLike) -> None:
        """Append pairs of sentences, without start and end symbols, with the numbers of their input lines."""
        numbers = np.asarray(line_numbers, STORED_INT64)
        assert len(source.lengths) == len(target.lengths) == len(numbers), "a line number for each pair"
        self._source.add(source)
        self._target.add(target)
        _append(self._directory / LINE_NUMBERS, numbers)
        self._num_pairs += len(numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "dtype": self._dtype_name,
            "num_pairs": self._num_pairs,
            "source_tokens": sum(self._source.shard_tokens),
            "target_tokens": sum(self._target.shard_tokens),
            "source_shards": self._source.shard_tokens,
            "target_shards": self._target.shard_tokens,
            "facts": dict(self._facts),
            **({"source_features": self._source_features} if self._source_features else {}),
        }
        (self._directory / HEADER).write_bytes(json.dumps(header, indent=1).encode())


class _SideWriter:
    """Writes the ids and offsets of one side."""

    def __init__(
        self, directory: Path, side: str, vocabulary_size: int, dtype: np.dtype[Any], max_shard_tokens: int
    ) -> None:
        self._directory, self._side = directory, side
        self._vocabulary_size, self._dtype = vocabulary_size, dtype
        self._max_shard_tokens = max_shard_tokens
        paths = (shard_path(directory, side, number) for number in count())
        found = [_num_bytes(path) // dtype.itemsize for path in takewhile(Path.exists, paths)]
        self.shard_tokens = found or [0]
        self._num_tokens = sum(self.shard_tokens)
        if not _num_bytes(offsets_path(directory, side)):
            _append(offsets_path(directory, side), np.zeros(1, STORED_INT64))

    def add(self, sentences: Sentences) -> None:
        ids, ends = sentences.ids, sentences.lengths.cumsum(dtype=np.int64)
        if self._dtype.shape:
            assert np.isfinite(ids).all(), "features are finite"
        else:
            assert ids.min(initial=END + 1) > END, "padding, start and end are never stored"
            assert ids.max(initial=0) < self._vocabulary_size, "an id outside the vocabulary"
        first = begin = 0
        while True:
            room = self._max_shard_tokens - self.shard_tokens[-1]
            last = max(first, int(np.searchsorted(ends, begin + room, side="right")))
            if last == first < len(ends) and not self.shard_tokens[-1]:
                last += 1  # a sentence that no shard has room for
            end = int(ends[last - 1]) if last > first else begin
            shard = shard_path(self._directory, self._side, len(self.shard_tokens) - 1)
            _append(shard, ids[begin:end].astype(self._dtype.base))
            self.shard_tokens[-1] += end - begin
            first, begin = last, end
            if first == len(ends):
                break
            self.shard_tokens.append(0)
        _append(offsets_path(self._directory, self._side), (self._num_tokens + ends).astype(STORED_INT64))
        self._num_tokens += len(ids)


def _num_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(path: Path, numbers: NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(numbers.tobytes())
