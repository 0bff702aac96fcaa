"""A process that splits texts into units: `python -m MODULE DIRECTORY CONFIG SOURCE_SIZE TARGET_SIZE`.

It reads requests from standard input until that ends, and answers each on standard output. A request is the
number of texts on a side and the bytes of each side (three int64), then the texts of both sides as lines. An
answer is, for each side, the number of texts and of ids (two int64), the number of ids of each text (int32)
and the ids (uint32).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from allyouneed.config.run import DataConfig
from allyouneed.data.store import Sentences
from allyouneed.tasks.units import Units, encode_corpus

_SIZE, _LENGTH, _ID = np.dtype("<i8"), np.dtype("<i4"), np.dtype("<u4")


def write_request(stream: BinaryIO, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Ask for the ids of pairs.

    Raises:
        ValueError: A text has a line feed, or half a surrogate pair; nothing is written.
    """
    sides = ["\n".join(side) for side in (sources, targets)]
    if any(text.count("\n") >= len(sources) for text in sides):
        raise ValueError("a text has a line feed")
    contents = [side.encode() for side in sides]
    stream.write(np.array([len(sources), *map(len, contents)], _SIZE).tobytes())
    stream.writelines(contents)
    stream.flush()


def read_answer(stream: BinaryIO, expected: int) -> Sentences:
    """The ids of the texts of one side.

    Args:
        stream: The stream of answers.
        expected: Number of texts.

    Raises:
        EOFError: The stream ends, or it is no answer about so many texts.
    """
    num_texts, num_ids = np.frombuffer(_exactly(stream, 2 * _SIZE.itemsize), _SIZE).tolist()
    if num_texts != expected:
        raise EOFError("another answer than asked for")
    lengths = np.frombuffer(_exactly(stream, num_texts * _LENGTH.itemsize), _LENGTH)
    return Sentences(np.frombuffer(_exactly(stream, num_ids * _ID.itemsize), _ID), lengths)


def answer(units: Units, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while header := requests.read(3 * _SIZE.itemsize):
        _, *sizes = np.frombuffer(header, _SIZE).tolist()
        sides = [_exactly(requests, size).decode().split("\n") for size in sizes]  # both, before any answer
        for vocabulary, texts in zip(units, sides, strict=True):
            sentences = encode_corpus(vocabulary, texts)
            answers.write(np.array([len(sentences.lengths), len(sentences.ids)], _SIZE).tobytes())
            answers.write(sentences.lengths.astype(_LENGTH).tobytes())
            answers.write(sentences.ids.astype(_ID).tobytes())
        answers.flush()


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError("its answer is cut off")
    return content


def _main(directory: str, config: str, *sizes: str) -> None:
    from allyouneed.tasks.catalogue import task_named  # the tasks import the module that imports this one

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what prints must not come between answers
    settings = DataConfig.model_validate_json(config)
    units = task_named(settings.task).load_units(Path(directory), settings, *map(int, sizes))
    answer(units, sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main(*sys.argv[1:])
