"""Splits pairs into units, a chunk at a time; a large corpus by worker processes, or by a cluster.

The chunks come back in order, so the result does not depend on the number of workers, nor on whether one of
them dies. Workers are programs of their own: processes of `multiprocessing` would run the main module of the
caller again, or fork its threads, and a pool of `concurrent.futures` breaks if one of its processes dies.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import chain, compress, islice, tee
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import Pair
from allyouneed.data.subword_dropout import SubwordDropout
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.hardware.cluster import Bundle, Cluster
from allyouneed.hardware.processor import available_cores
from allyouneed.preparation.encoding_worker import (
    EncodedTexts,
    SideEncoder,
    encoders_of,
    load_encoders,
    read_answer,
    write_request,
)
from allyouneed.preparation.told_languages import marking
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import Units

CHUNK_PAIRS = 4_096
_CHUNK_CHARACTERS = 1 << 20  # both sides; each takes about 100 bytes of memory
_ALONE_CHUNKS = 10
"""Number of chunks before workers are started: a small corpus is done before they are ready."""
_WAITING_CHUNKS = 2  # per worker, so that none has to wait
_MOST_WORKERS = 16  # by default, as one process reads for all


class Chunk(NamedTuple):
    """Pairs that are encoded together."""

    pairs: Sequence[Pair]
    line_numbers: Sequence[int]
    """The number of each pair's line, counted over all files."""

    def where(self, kept: NDArray[np.bool_]) -> "Chunk":
        """Some of the pairs."""
        return Chunk([*compress(self.pairs, kept)], [*compress(self.line_numbers, kept)])

    @property
    def sources(self) -> list[str]:
        """The source texts."""
        return [pair.source for pair in self.pairs]

    @property
    def targets(self) -> list[str]:
        """The target texts."""
        return [pair.target for pair in self.pairs]


class EncodedChunk(NamedTuple):
    """A chunk and its ids."""

    chunk: Chunk
    source: EncodedTexts
    target: EncodedTexts


def chunks_of(numbered: Iterable[tuple[Pair, int]], most: int | None = None) -> Iterator[Chunk]:
    """Pairs and the numbers of their lines in chunks of at most so many; fewer together if they are long."""
    most = most or CHUNK_PAIRS
    pairs: list[Pair] = []
    line_numbers: list[int] = []
    num_characters = 0
    for pair, number in numbered:
        pairs.append(pair)
        line_numbers.append(number)
        num_characters += len(pair.source) + len(pair.target)
        if len(pairs) == most or num_characters > _CHUNK_CHARACTERS:
            yield Chunk(pairs, line_numbers)
            pairs, line_numbers, num_characters = [], [], 0
    if pairs:
        yield Chunk(pairs, line_numbers)


class Encoder:
    """Encodes chunks.

    Args:
        units: The units of both sides.
        directory: Folder that the units are saved in, for the workers.
        config: Data settings.
        languages: Codes of the languages that the texts of both sides should have, if pairs are filtered.
        num_workers: Number of further processes for large corpora, by default one for each core; 0 for none.
            Or a cluster whose processes encode.
        say: Receives a line if workers cannot be used.

    Raises:
        UsageError: Languages cannot be detected.
    """

    def __init__(
        self,
        units: Units,
        directory: Path,
        config: DataConfig,
        languages: Sequence[str] | None = None,
        num_workers: int | Cluster | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._units = units
        self._source, self._target = encoders_of(units, languages)
        self.mark = marking(units, config.directions)
        """Function that puts the symbol of the language to write before a source, where there are several."""
        self._say = say
        self._cluster = num_workers if isinstance(num_workers, Cluster) else None
        wanted = num_workers if isinstance(num_workers, int) else min(available_cores(), _MOST_WORKERS)
        self._num_workers = wanted if sys.executable else 0  # which is not known where Python is embedded
        self._has_told = False
        sizes = units.source.vocab_size, units.target.vocab_size
        self.vocab_size = max(sizes)
        """Size of the larger vocabulary."""
        self.most_pairs = task_named(config.task).pairs_at_once
        """Maximum number of pairs of a chunk, unless it is the usual one."""
        self.source_features = units.source_features
        """Number of features of a source's vectors; 0 if sources are ids."""
        self._directory = directory
        self._settings = config.model_dump_json(), json.dumps(languages), *map(str, sizes)

    def dropouts(self, probability: float) -> tuple[SubwordDropout, SubwordDropout] | None:
        """The subword dropout of each side, unless the probability is 0."""
        if not probability:
            return None
        source, target = self._units
        assert isinstance(source, Tokenizer)
        assert isinstance(target, Tokenizer)
        of_source = SubwordDropout(source, probability)
        return of_source, of_source if source == target else SubwordDropout(target, probability)

    def encoded(self, chunks: Iterator[Chunk]) -> Generator[EncodedChunk, None, None]:
        """The chunks, in their order, with their ids."""
        alone = _ALONE_CHUNKS if self._num_workers or self._cluster else None
        yield from map(self._alone, islice(chunks, alone))
        if (first := next(chunks, None)) is not None:
            rest = chain([first], chunks)
            yield from self._by_cluster(self._cluster, rest) if self._cluster else self._by_workers(rest)

    def _alone(self, chunk: Chunk) -> EncodedChunk:
        return EncodedChunk(chunk, self._source.encode(chunk.sources), self._target.encode(chunk.targets))

    def _by_cluster(self, cluster: Cluster, chunks: Iterator[Chunk]) -> Iterator[EncodedChunk]:
        encode = partial(_encoded, cluster.bundle(self._directory), self._settings)
        chunks, again = tee(chunks)
        encoded = cluster.map(encode, ((chunk.sources, chunk.targets) for chunk in chunks))
        with contextlib.closing(encoded):
            yield from (EncodedChunk(chunk, *sides) for chunk, sides in zip(again, encoded, strict=True))

    def _by_workers(self, chunks: Iterator[Chunk]) -> Iterator[EncodedChunk]:
        workers: SimpleQueue[_Worker | None] = SimpleQueue()
        faults: SimpleQueue[str] = SimpleQueue()
        has_ended = Event()

        def encode(chunk: Chunk) -> EncodedChunk:
            """Encode a chunk in a worker, or in this process in the place of one that has ended."""
            if not chunk.pairs:
                return self._alone(chunk)
            worker = workers.get()
            try:
                if worker is not None:
                    return EncodedChunk(chunk, *worker.encode(chunk))
            except ValueError:
                pass  # a text that cannot be sent; nothing was
            except (OSError, EOFError) as error:
                if has_ended.is_set():
                    raise
                worker = None
                faults.put(f"has ended ({error})")
            finally:
                workers.put(worker)
            return self._alone(chunk)

        with ThreadPoolExecutor(self._num_workers) as pool, contextlib.ExitStack() as stack:
            # At the end no more chunks are begun, then the workers are killed, so no thread waits for one.
            for _ in range(self._num_workers):
                workers.put(self._started(stack, faults))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            stack.callback(has_ended.set)
            waiting: deque[Future[EncodedChunk]] = deque()
            while True:
                missing = _WAITING_CHUNKS * self._num_workers - len(waiting)
                waiting.extend(pool.submit(encode, chunk) for chunk in islice(chunks, missing))
                if not waiting:
                    return
                encoded = waiting.popleft().result()
                self._tell(faults)
                yield encoded

    def _started(self, stack: contextlib.ExitStack, faults: "SimpleQueue[str]") -> "_Worker | None":
        try:
            module = "-P", "-m", "allyouneed.preparation.encoding_worker"
            command = sys.executable, *module, str(self._directory), *self._settings
            return stack.enter_context(_Worker(command))
        except OSError as error:
            faults.put(f"could not be started ({error.strerror})")
            return None

    def _tell(self, faults: "SimpleQueue[str]") -> None:
        """Say the first fault."""
        if not self._has_told and not faults.empty():
            self._has_told = True
            self._say(f"NOTICE: a process that encodes {faults.get()}; going on, more slowly")


class _Worker:
    """A process that encodes; see `encoding_worker`. It ends when its input does, or this one."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,  # a signal from the terminal is for the one that commands
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._output: BinaryIO = self._process.stdout  # type: ignore[assignment]

    def encode(self, chunk: Chunk) -> tuple[EncodedTexts, EncodedTexts]:
        """The ids of both sides.

        Raises:
            ValueError: A text cannot be sent; nothing was.
            OSError, EOFError: The process has ended, or could not encode the chunk.
        """
        write_request(self._input, chunk.sources, chunk.targets)
        num_pairs = len(chunk.pairs)
        return read_answer(self._output, num_pairs), read_answer(self._output, num_pairs)

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()  # first, as a thread may be reading what it writes
        self._process.wait()
        for stream in (self._input, self._output):
            with contextlib.suppress(OSError):
                stream.close()


def _encoded(
    units: Bundle, settings: tuple[str, ...], texts: tuple[list[str], list[str]]
) -> tuple[EncodedTexts, EncodedTexts]:
    """Encode a chunk in a process of a cluster."""
    source, target = _encoders(units, settings)
    return source.encode(texts[0]), target.encode(texts[1])


@lru_cache(maxsize=1)
def _encoders(units: Bundle, settings: tuple[str, ...]) -> tuple[SideEncoder, SideEncoder]:
    """The encoders of both sides, which stay in the process for further chunks."""
    return load_encoders(units.unpacked(), *settings)
