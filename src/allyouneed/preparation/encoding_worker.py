"""A process that splits texts into units: `python -m MODULE DIRECTORY CONFIG LANGUAGES SIZE SIZE`.

It reads requests from standard input until that ends, and answers each on standard output. A request is the
number of texts on a side and the bytes of each side (three int64), then the texts of both sides as lines. An
answer is, for each side, the number of texts and of ids, and the number of features if these are vectors
(three int64), whether each text passes the filter of languages (bool), the number of ids of each text (int32)
and the ids (uint32) or vectors (float32).
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.languages import LanguageFilter
from allyouneed.data.store import Sentences, vectors_of
from allyouneed.data.tokenizer import Tokenizer, split_symbol
from allyouneed.tasks.task import Units, Vocabulary

_SIZE, _LENGTH, _ID = np.dtype("<i8"), np.dtype("<i4"), np.dtype("<u4")


class EncodedTexts(NamedTuple):
    """The texts of one side of a chunk."""

    sentences: Sentences
    """Their ids."""
    passes: NDArray[np.bool_]
    """Which of them may be in the language of the side: (texts,)."""


class SideEncoder:
    """Splits the texts of one side into units, and tells which are in `language`, if that is given.

    Texts may begin with one of the `symbols` for languages, given with their ids.
    """

    def __init__(self, vocabulary: Vocabulary, language: str | None, symbols: Mapping[str, int] = {}) -> None:
        self._vocabulary, self._symbols = vocabulary, symbols
        self._filter = LanguageFilter(language) if language else None

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """The ids of texts, and which of them are in the language."""
        if not self._symbols:
            return self._encoded(texts)
        split = [split_symbol(text, self._symbols) for text in texts]
        found = self._encoded([rest for _, rest in split])
        symbols = Sentences.of([[self._symbols[each.rstrip()]] if each else [] for each, _ in split])
        return found._replace(sentences=found.sentences.after(symbols))

    def _encoded(self, texts: Sequence[str]) -> EncodedTexts:
        if isinstance(self._vocabulary, Tokenizer):
            sentences = self._vocabulary.encode_corpus(texts)
        else:
            sentences = Sentences.of(self._vocabulary.encode_batch(texts))
        passes = np.ones(len(texts), np.bool_)
        if self._filter:
            passes = np.fromiter(map(self._filter.passes, texts), np.bool_, len(texts))
        return EncodedTexts(sentences, passes)

    def encode_lines(self, content: bytes) -> EncodedTexts:
        """The ids of lines in UTF-8, each of which ends with a line feed; see `encode`."""
        if self._filter or self._symbols or not isinstance(self._vocabulary, Tokenizer):
            return self.encode(content.decode().split("\n")[:-1])
        sentences = self._vocabulary.encode_lines(content)
        return EncodedTexts(sentences, np.ones(len(sentences.lengths), np.bool_))


def encoders_of(units: Units, languages: Sequence[str] | None) -> tuple[SideEncoder, SideEncoder]:
    """The encoders of both sides; only sources begin with symbols."""
    source, target = languages or (None, None)
    return SideEncoder(units.source, source, units.symbols), SideEncoder(units.target, target)


def write_request(stream: BinaryIO, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Ask for the ids of pairs; raises ValueError, and writes nothing, if a text cannot be sent as a line."""
    sides = ["\n".join(side) for side in (sources, targets)]
    if any(text.count("\n") >= len(sources) for text in sides):
        raise ValueError("a text has a line feed")
    contents = [side.encode() for side in sides]
    stream.write(np.array([len(sources), *map(len, contents)], _SIZE).tobytes())
    stream.writelines(contents)
    stream.flush()


def read_answer(stream: BinaryIO, expected: int) -> EncodedTexts:
    """The ids of so many texts of one side; raises EOFError if the stream ends, or has another answer."""
    num_texts, num_ids, features = np.frombuffer(_exactly(stream, 3 * _SIZE.itemsize), _SIZE).tolist()
    if num_texts != expected:
        raise EOFError("another answer than asked for")
    passes = np.frombuffer(_exactly(stream, num_texts), np.bool_)
    lengths = np.frombuffer(_exactly(stream, num_texts * _LENGTH.itemsize), _LENGTH)
    dtype = vectors_of(features) if features else _ID
    ids = np.frombuffer(_exactly(stream, num_ids * dtype.itemsize), dtype.base).reshape(-1, *dtype.shape)
    return EncodedTexts(Sentences(ids, lengths), passes)


def answer(encoders: tuple[SideEncoder, SideEncoder], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while header := requests.read(3 * _SIZE.itemsize):
        _, *sizes = np.frombuffer(header, _SIZE).tolist()
        sides = [_exactly(requests, size) for size in sizes]  # both, before any answer
        for encoder, content in zip(encoders, sides, strict=True):
            sentences, passes = encoder.encode_lines(content + b"\n")
            num_ids, *features = sentences.ids.shape
            answers.write(np.array([len(sentences.lengths), num_ids, *(features or [0])], _SIZE).tobytes())
            answers.write(passes.tobytes())
            answers.write(sentences.lengths.astype(_LENGTH).tobytes())
            answers.write((sentences.ids if features else sentences.ids.astype(_ID)).tobytes())
        answers.flush()


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError("its answer is cut off")
    return content


def load_encoders(
    directory: Path, config: str, languages: str, *sizes: str
) -> tuple[SideEncoder, SideEncoder]:
    """The encoders of both sides, from a directory with saved units and the arguments of this program."""
    from allyouneed.tasks.catalogue import task_named  # the tasks import the module that imports this one

    settings = DataConfig.model_validate_json(config)
    units = task_named(settings.task).load_units(directory, settings, *map(int, sizes))
    return encoders_of(units, json.loads(languages))


def _main(directory: str, *settings: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what prints must not come between answers
    answer(load_encoders(Path(directory), *settings), sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main(*sys.argv[1:])
