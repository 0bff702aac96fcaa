"""Writes sentence pairs as token ids; `data.store` describes the files and reads them."""

import json
from collections.abc import Mapping
from itertools import count, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.store import (
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    ID_DTYPES,
    LINE_NUMBERS,
    STORED_INT64,
    Sentences,
    offsets_path,
    shard_path,
)
from allyouneed.symbols import END

SHARD_TOKENS = 1 << 28
NO_SENTENCES = Sentences.of([])


class PairWriter:
    """Writes a store, some pairs at a time. The header is written last, if the block succeeds.

    Args:
        directory: Folder to create, or one in which a writer of the same pairs was interrupted; this one
            goes on where its files end.
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
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._dtype_name = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        self._facts = {} if facts is None else facts
        dtype = ID_DTYPES[self._dtype_name]
        self._source = _SideWriter(directory, "source", vocabulary_size, dtype, shard_tokens)
        self._target = _SideWriter(directory, "target", vocabulary_size, dtype, shard_tokens)
        self._num_pairs = _num_bytes(directory / LINE_NUMBERS) // STORED_INT64.itemsize
        self.add(NO_SENTENCES, NO_SENTENCES, [])  # makes the files

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write_header()

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


class _SideWriter:
    """Writes the ids and offsets of one side."""

    def __init__(
        self, directory: Path, side: str, vocabulary_size: int, dtype: np.dtype[Any], max_shard_tokens: int
    ) -> None:
        self._directory, self._side = directory, side
        self._vocabulary_size, self._dtype = vocabulary_size, dtype
        self._max_shard_tokens = max_shard_tokens
        self.shard_tokens = self._found_shards() or [0]
        self._num_tokens = sum(self.shard_tokens)
        if not _num_bytes(offsets_path(directory, side)):
            _append(offsets_path(directory, side), np.zeros(1, STORED_INT64))

    def add(self, sentences: Sentences) -> None:
        ids, ends = sentences.ids, sentences.lengths.cumsum(dtype=np.int64)
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
            _append(shard, ids[begin:end].astype(self._dtype))
            self.shard_tokens[-1] += end - begin
            first, begin = last, end
            if first == len(ends):
                break
            self.shard_tokens.append(0)
        _append(offsets_path(self._directory, self._side), (self._num_tokens + ends).astype(STORED_INT64))
        self._num_tokens += len(ids)

    def _found_shards(self) -> list[int]:
        """The number of tokens in each shard that is there."""
        paths = (shard_path(self._directory, self._side, number) for number in count())
        found = takewhile(Path.exists, paths)
        return [_num_bytes(path) // self._dtype.itemsize for path in found]


def _num_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(path: Path, numbers: NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(numbers.tobytes())
