"""Marian's binary files (`.bin`, version 1), which Bergamot and Firefox use, as named arrays.

Header: version, number of items, and for each item the lengths of its name, shape and data, and its type,
64 bits each; then all names, all shapes, padding, and all data.
"""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from allyouneed.errors import ModelError
from allyouneed.storage.publish import read_published

_VERSION = 1
_FLOAT32 = 0x0404
_MOST_ITEMS, _MOST_NAME, _MOST_DIMENSIONS = 100_000, 1_000, 8


class _Item(NamedTuple):
    name_length: int
    type: int
    num_dimensions: int
    num_bytes: int


def is_binary(path: Path) -> bool:
    """Whether a file begins as Marian's binary files do."""
    with path.open("rb") as file:
        return file.read(8) == struct.pack("<Q", _VERSION)


def read_arrays(path: Path) -> dict[str, Tensor | bytes]:
    """The arrays of a file: tensors of float32, and others as bytes.

    Raises:
        ModelError: The file is damaged, or its weights are rounded to integers.
    """
    try:
        return _read(path, read_published(path))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ModelError(
            f"{path}: is damaged or no binary file of Marian ({error}); take another copy"
        ) from None


def _read(path: Path, content: bytes) -> dict[str, Tensor | bytes]:
    version, count = struct.unpack_from("<QQ", content)
    if version != _VERSION or count > _MOST_ITEMS:
        raise ValueError(f"version {version}, {count:,} items")
    at = 16
    items = [_Item(*struct.unpack_from("<QQQQ", content, at + 32 * number)) for number in range(count)]
    at += 32 * count
    names, shapes = [], []
    for item in items:
        if item.name_length > _MOST_NAME or item.num_dimensions > _MOST_DIMENSIONS:
            raise ValueError("the length of a name or a shape")
        names.append(content[at : at + item.name_length].rstrip(b"\0").decode())
        at += item.name_length
    for item in items:
        shapes.append(struct.unpack_from(f"<{item.num_dimensions}i", content, at))
        at += 4 * item.num_dimensions
    [padding] = struct.unpack_from("<Q", content, at)
    at += 8 + padding
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    arrays: dict[str, Tensor | bytes] = {}
    for item, name, shape in zip(items, names, shapes, strict=True):
        data = content[at : at + item.num_bytes]
        if len(data) < item.num_bytes:
            raise ValueError("it ends too early")
        at += item.num_bytes
        arrays[name] = _array(path, name, item.type, shape, data)
    return arrays


def _array(path: Path, name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Tensor | bytes:
    if name.startswith("special:"):
        return data
    if kind != _FLOAT32:
        raise ModelError(
            f"{path}: {name} is of type {kind:#x}, and only float32 ({_FLOAT32:#x}) is supported; "
            "import the model that it was made from"
        )
    size = 1
    for length in shape:
        size *= length
    if size < 0 or 4 * size > len(data):
        raise ValueError(f"{name} has less data than its shape {shape}")
    return torch.from_numpy(np.frombuffer(data[: 4 * size], "<f4").reshape(shape).copy())
