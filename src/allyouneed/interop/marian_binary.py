"""Writes Marian's binary files of arrays of float32 and matrices rounded to int8, as Firefox reads them."""

import struct
from collections.abc import Container, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from allyouneed.interop.foreign import Array
from allyouneed.interop.marian_files import FLOAT32, INT8, INTGEMM8, VERSION

_ALIGNMENT = 256
LARGEST = 127.0
"""The largest rounded value; -128 is not used."""


def write_binary(path: Path, arrays: Mapping[str, Array | bytes], rounded: Container[str] = ()) -> None:
    """Write arrays of float32, bytes as int8, and the matrices named in `rounded` as intgemm8.

    A rounded matrix has `127 / max |w|` as its factor, behind it. All but embeddings are transposed.
    """
    items = {name: _item(name, array, name in rounded) for name, array in sorted(arrays.items())}
    with path.open("wb") as file:
        file.write(struct.pack("<QQ", VERSION, len(items)))
        for name, (kind, shape, data) in items.items():
            file.write(struct.pack("<QQQQ", len(name.encode()) + 1, kind, len(shape), len(data)))
        file.writelines(name.encode() + b"\0" for name in items)
        file.writelines(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in items.values())
        _pad(file)
        file.writelines(data for _, _, data in items.values())


def _item(name: str, array: Array | bytes, is_rounded: bool) -> tuple[int, tuple[int, ...], bytes]:
    """Type, shape and content, whose length is a multiple of the alignment."""
    if isinstance(array, bytes):
        kind, shape, data = INT8, (len(array),), array
    elif is_rounded:
        values, factor = rounded_matrix(array)
        laid_out = values if "Wemb" in name else values.T
        kind, shape, data = INTGEMM8, array.shape, laid_out.tobytes() + struct.pack("<f", factor)
    else:
        kind, shape, data = FLOAT32, array.shape, array.astype("<f4").tobytes()
    return kind, shape, data + bytes(-len(data) % _ALIGNMENT)


def rounded_matrix(matrix: Array) -> tuple[NDArray[np.int8], float]:
    """Values from -127 to 127, and the factor by which they were multiplied before they were rounded."""
    factor = np.float32(LARGEST) / (np.abs(matrix).max() or np.float32(1))
    return np.clip(np.rint(matrix * factor), -LARGEST, LARGEST).astype(np.int8), float(factor)


def _pad(file: BinaryIO) -> None:
    """Write how many zeros follow, and these, so that what comes next is aligned."""
    place = file.tell() + 8
    count = -place % _ALIGNMENT
    file.write(struct.pack("<Q", count) + bytes(count))
