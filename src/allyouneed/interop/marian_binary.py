"""Marian's binary files (`.bin`, version 1), which Bergamot and Firefox use, as named arrays.

Header: version, number of items, and for each item the lengths of its name, shape and data, and its type,
64 bits each; then all names, all shapes, padding, and all data. A matrix that is rounded to integers is
stored transposed, unless it has embeddings, and is followed by the factor that it was multiplied by.
"""

import math
import os
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.interop.foreign_files import ByteReader
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular

_VERSION = 1
_FLOAT32 = 0x0404
_INTEGERS = {0x10001: "<i1", 0x10002: "<i2", 0x4101: "<i1", 0x4102: "<i2"}
"""Marian's intgemm8 and intgemm16, and those of Bergamot and Firefox, which have other numbers."""
_EMBEDDINGS = "Wemb"
_MOST_ITEMS, _MOST_NAME, _MOST_DIMENSIONS = 100_000, 1_000, 8


class _Item(NamedTuple):
    name_length: int
    type: int
    num_dimensions: int
    num_bytes: int


def is_binary(path: Path) -> bool:
    """Whether a file begins as Marian's binary files do.

    Raises:
        ModelError: It is no regular file, or larger than any model.
    """
    with open_regular(path, MAX_WEIGHT_BYTES) as file:
        return file.read(8) == struct.pack("<Q", _VERSION)


def read_arrays(path: Path) -> tuple[dict[str, Tensor | bytes], bool]:
    """The arrays of a file, tensors of float32 and others as bytes, and whether some were rounded.

    Raises:
        ModelError: The file is damaged, or its weights are packed for one kind of processor.
    """
    try:
        with open_regular(path, MAX_WEIGHT_BYTES) as file:
            return _read(path, ByteReader(file, os.fstat(file.fileno()).st_size))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ModelError(
            f"{path}: is damaged or no binary file of Marian ({error}); take another copy"
        ) from None


def _read(path: Path, file: ByteReader) -> tuple[dict[str, Tensor | bytes], bool]:
    version, count = file.numbers("QQ")
    if version != _VERSION or count > _MOST_ITEMS:
        raise ValueError(f"version {version}, {count:,} items")
    items = [_Item(*file.numbers("QQQQ")) for _ in range(count)]
    if any(item.name_length > _MOST_NAME or item.num_dimensions > _MOST_DIMENSIONS for item in items):
        raise ValueError("the length of a name or a shape")
    names = [file.take(item.name_length).rstrip(b"\0").decode() for item in items]
    shapes = [file.numbers(f"{item.num_dimensions}i") for item in items]
    [padding] = file.numbers("Q")
    file.take(padding)
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    arrays = {
        name: _array(path, name, item.type, shape, file.take(item.num_bytes))
        for item, name, shape in zip(items, names, shapes, strict=True)
    }
    return arrays, any(item.type in _INTEGERS for item in items)


def _array(path: Path, name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Tensor | bytes:
    if name.startswith("special:"):
        return data
    if kind not in (_FLOAT32, *_INTEGERS):
        raise ModelError(
            f"{path}: {name} is of type {kind:#x}, and only float32 ({_FLOAT32:#x}) and intgemm's integers "
            "are supported; import the model that it was made from"
        )
    stored = np.dtype(_INTEGERS.get(kind, "<f4"))
    size = math.prod(shape)
    num_bytes = size * stored.itemsize + (4 if kind in _INTEGERS else 0)
    if min(shape, default=1) < 0 or num_bytes > len(data):
        raise ValueError(f"{name} has less data than its shape {shape}")
    values = np.frombuffer(data, stored, size)
    if kind == _FLOAT32:
        return torch.from_numpy(values.reshape(shape).copy())
    [factor] = struct.unpack_from("<f", data, size * stored.itemsize)
    if not (math.isfinite(factor) and factor > 0) or len(shape) != 2:
        raise ValueError(f"{name} is no matrix with a factor")
    whole = values.reshape(shape) if _EMBEDDINGS in name else values.reshape(shape[::-1]).T
    return torch.from_numpy(whole.astype(np.float32, order="C") / np.float32(factor))
