"""Sentence pairs as token ids in memory-mapped shards, as training reads them (paper 5.1).

A store is a folder with `header.json` and little-endian arrays: for each side, the ids of all sentences
without start and end symbols, in shards, and the offset of each sentence; and the input line of each pair.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.errors import DiskError, ModelError
from allyouneed.symbols import END, PADDING

HEADER = "header.json"
FORMAT = "allyouneed sentence pairs"
FORMAT_VERSION = 1
SHARD_TOKENS = 1 << 28
_BUFFERED_PAIRS = 4096
_BUFFERED_TOKENS = 1 << 20  # of both sides, about 40 bytes of memory each
_LINE_NUMBERS = "line_numbers.bin"
_STORED_INT64 = np.dtype("<i8")
_ID_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


class PairWriter:
    """Writes a store pair by pair in constant memory. The header is written last, if the block succeeds.

    Args:
        directory: Folder to create; it must not exist.
        vocabulary_size: Size of the larger vocabulary, which decides the width of ids.
        facts: More keys for the header, such as sha256 hashes; read when the block ends.
        shard_tokens: Maximum number of tokens of one side in a shard, unless a single sentence has more.
    """

    def __init__(
        self,
        directory: Path,
        *,
        vocabulary_size: int,
        facts: Mapping[str, Any] | None = None,
        shard_tokens: int = SHARD_TOKENS,
    ) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._dtype_name = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        self._facts = {} if facts is None else facts
        dtype = _ID_DTYPES[self._dtype_name]
        self._source = _SideWriter(directory, "source", vocabulary_size, dtype, shard_tokens)
        self._target = _SideWriter(directory, "target", vocabulary_size, dtype, shard_tokens)
        self._line_numbers: list[int] = []
        self._num_pairs = 0

    def add(self, source: Sequence[int], target: Sequence[int], line_number: int) -> None:
        """Append a pair of sentences, without start and end symbols, with the number of its input line."""
        self._source.add(source)
        self._target.add(target)
        self._line_numbers.append(line_number)
        self._num_pairs += 1
        num_tokens = self._source.num_buffered + self._target.num_buffered
        if len(self._line_numbers) == _BUFFERED_PAIRS or num_tokens >= _BUFFERED_TOKENS:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
            self._write_header()

    def _flush(self) -> None:
        self._source.flush()
        self._target.flush()
        _append(self._directory / _LINE_NUMBERS, np.array(self._line_numbers, _STORED_INT64))
        self._line_numbers.clear()

    def _write_header(self) -> None:
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
        }
        (self._directory / HEADER).write_bytes(json.dumps(header, indent=1).encode())


class PairStore:
    """Reads a store through memory maps. Pairs are numbered from 0 in the order they were written.

    Attributes:
        num_pairs: Number of pairs.
        source_lengths: Number of tokens per source sentence, without control symbols: int32 (num_pairs,).
        target_lengths: Number of tokens per target sentence, without control symbols: int32 (num_pairs,).
        line_numbers: Number of the input line of each pair: int64 (num_pairs,).
        facts: The keys that the writer added to the header.

    Raises:
        ModelError: A file is missing, damaged, of the wrong size, or of another version.
        DiskError: A file cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        header = _read_header(directory / HEADER)
        self.num_pairs = header.num_pairs
        self.facts = header.facts
        self.line_numbers = _map(directory / _LINE_NUMBERS, _STORED_INT64, header.num_pairs)
        self._source = _Side(directory, "source", header)
        self._target = _Side(directory, "target", header)
        self.source_lengths = self._source.lengths
        self.target_lengths = self._target.lengths

    def require_ids_below(self, source_vocab_size: int, target_vocab_size: int) -> None:
        """Check that all ids are in the vocabularies and are not control symbols.

        Raises:
            ModelError: An id is invalid; the error names the shard.
        """
        self._source.require_ids_below(source_vocab_size)
        self._target.require_ids_below(target_vocab_size)

    def source(self, index: int) -> NDArray[np.unsignedinteger]:
        """The ids of one source sentence."""
        return self._source.sentence(index)

    def target(self, index: int) -> NDArray[np.unsignedinteger]:
        """The ids of one target sentence."""
        return self._target.sentence(index)

    def gather_source(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Source sentences side by side, padded to the longest: int64 (rows, longest)."""
        return self._source.gather(np.asarray(indices))

    def gather_target(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Target sentences side by side, padded to the longest: int64 (rows, longest)."""
        return self._target.gather(np.asarray(indices))


class _SideWriter:
    """Buffers and writes the ids and offsets of one side."""

    def __init__(
        self, directory: Path, side: str, vocabulary_size: int, dtype: np.dtype[Any], max_shard_tokens: int
    ) -> None:
        self.shard_tokens = [0]
        self._directory = directory
        self._side = side
        self._vocabulary_size = vocabulary_size
        self._dtype = dtype
        self._max_shard_tokens = max_shard_tokens
        self._ids: list[int] = []
        self._offsets = [0]
        self._num_tokens = 0

    def add(self, sentence: Sequence[int]) -> None:
        if self.shard_tokens[-1] > 0 and self.shard_tokens[-1] + len(sentence) > self._max_shard_tokens:
            self.flush()
            self.shard_tokens.append(0)
        self._ids.extend(sentence)
        self._num_tokens += len(sentence)
        self._offsets.append(self._num_tokens)
        self.shard_tokens[-1] += len(sentence)

    @property
    def num_buffered(self) -> int:
        return len(self._ids)

    def flush(self) -> None:
        ids = np.array(self._ids, np.int64)
        assert ids.min(initial=END + 1) > END, "padding, start and end are never stored"
        assert ids.max(initial=0) < self._vocabulary_size, "an id outside the vocabulary"
        shard = len(self.shard_tokens) - 1
        _append(_shard_path(self._directory, self._side, shard), ids.astype(self._dtype))
        _append(_offsets_path(self._directory, self._side), np.array(self._offsets, _STORED_INT64))
        self._ids.clear()
        self._offsets.clear()


class _Side:
    """Reads the ids and offsets of one side through memory maps."""

    def __init__(self, directory: Path, side: str, header: "_Header") -> None:
        path = _offsets_path(directory, side)
        shard_tokens = header.shard_tokens[side]
        self._offsets = _map(path, _STORED_INT64, header.num_pairs + 1)
        self._shards = [
            _map(_shard_path(directory, side, shard), header.dtype, num_tokens)
            for shard, num_tokens in enumerate(shard_tokens)
        ]
        shard_bounds = np.cumsum([0, *shard_tokens])
        lengths = np.diff(self._offsets)
        if (
            not np.array_equal(self._offsets[[0, -1]], shard_bounds[[0, -1]])
            or lengths.min(initial=0) < 0
            or self._offsets.max() > shard_bounds[-1]  # or else the differences may have overflowed
            or not np.isin(shard_bounds, self._offsets).all()
        ):
            raise ModelError(f"{path}: is damaged; prepare the data again")
        self._directory, self._name = directory, side
        self._shard_starts = shard_bounds[:-1]
        self.lengths = lengths.astype(np.int32)

    def require_ids_below(self, vocab_size: int) -> None:
        for number, shard in enumerate(self._shards):
            smallest, largest = (int(shard.min()), int(shard.max())) if shard.size else (END + 1, END + 1)
            if smallest <= END or largest >= vocab_size:
                raise ModelError(
                    f"{_shard_path(self._directory, self._name, number)}: holds ids from {smallest} to "
                    f"{largest}, {END + 1} to {vocab_size - 1} are possible; prepare the data again"
                )

    def sentence(self, index: int) -> NDArray[np.unsignedinteger]:
        start, end = self._offsets[index], self._offsets[index + 1]
        shard = int(self._shard_of(start))
        return self._shards[shard][start - self._shard_starts[shard] : end - self._shard_starts[shard]]

    def gather(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        lengths = self.lengths[indices]
        columns = np.arange(lengths.max(initial=0))
        inside = columns < lengths[:, None]  # (rows, longest)
        positions = (self._offsets[indices][:, None] + columns)[inside]  # (tokens,)
        padded = np.full(inside.shape, PADDING, np.int64)
        padded[inside] = self._tokens_at(positions)
        return padded

    def _tokens_at(self, positions: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
        shards = self._shard_of(positions)
        tokens = np.empty(len(positions), np.uint32)
        for shard in np.unique(shards):
            here = shards == shard
            tokens[here] = self._shards[shard][positions[here] - self._shard_starts[shard]]
        return tokens

    def _shard_of(self, positions: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._shard_starts, positions, side="right") - 1


@dataclass(frozen=True)
class _Header:
    dtype: np.dtype[Any]
    num_pairs: int
    shard_tokens: Mapping[str, list[int]]
    facts: dict[str, Any]


def _read_header(path: Path) -> _Header:
    try:
        header = json.loads(path.read_bytes())
        kind, version = header["format"], header["format_version"]
        if (kind, version) == (FORMAT, FORMAT_VERSION):
            return _Header(
                _ID_DTYPES[header["dtype"]],
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
    """Memory-map a file of `count` numbers."""
    try:
        size = path.stat().st_size
        if size == count * dtype.itemsize:
            # An empty file cannot be mapped.
            return np.asarray(np.memmap(path, dtype, mode="r")) if count else np.empty(0, dtype)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file; prepare the data again") from None
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from error
    raise ModelError(f"{path}: has {size} bytes, {count * dtype.itemsize} expected; prepare the data again")


def _append(path: Path, numbers: NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(numbers.tobytes())


def _shard_path(directory: Path, side: str, shard: int) -> Path:
    return directory / f"{side}-{shard:05}.bin"


def _offsets_path(directory: Path, side: str) -> Path:
    return directory / f"{side}_offsets.bin"
