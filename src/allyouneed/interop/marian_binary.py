"""Writes Marian's binary files: arrays of float32, matrices rounded to int8, and lexical shortlists.

The numbers of types are those of Bergamot's Marian, on which Firefox runs.
"""

import struct
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from allyouneed.interop.foreign import Array

_VERSION = 1
_INT8, _FLOAT32, _INTGEMM8 = 0x0101, 0x0404, 0x4101
_ALIGNMENT = 256
_SHORTLIST = 0xF11A48D5013417F5
"""First number of a shortlist's file."""
_GOLDEN = 0x9E3779B9
"""Summand of boost's combination of hashes."""
LARGEST = 127.0
"""The largest rounded value; -128 is not used."""


def write_binary(path: Path, arrays: Mapping[str, Array | bytes], rounded: Container[str] = ()) -> None:
    """Write arrays of float32, bytes as int8, and the matrices named in `rounded` as intgemm8.

    A rounded matrix has `127 / max |w|` as its factor, behind it. All but embeddings are transposed.
    """
    items = {name: _item(name, array, name in rounded) for name, array in sorted(arrays.items())}
    with path.open("wb") as file:
        file.write(struct.pack("<QQ", _VERSION, len(items)))
        for name, (kind, shape, data) in items.items():
            file.write(struct.pack("<QQQQ", len(name.encode()) + 1, kind, len(shape), len(data)))
        file.writelines(name.encode() + b"\0" for name in items)
        file.writelines(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in items.values())
        _pad(file)
        file.writelines(data for _, _, data in items.values())


def _item(name: str, array: Array | bytes, is_rounded: bool) -> tuple[int, tuple[int, ...], bytes]:
    """Type, shape and content, whose length is a multiple of the alignment."""
    if isinstance(array, bytes):
        kind, shape, data = _INT8, (len(array),), array
    elif is_rounded:
        values, factor = rounded_matrix(array)
        laid_out = values if "Wemb" in name else values.T
        kind, shape, data = _INTGEMM8, array.shape, laid_out.tobytes() + struct.pack("<f", factor)
    else:
        kind, shape, data = _FLOAT32, array.shape, array.astype("<f4").tobytes()
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


def write_shortlist(
    path: Path, allowed: Sequence[NDArray[np.integer]], num_first: int, num_best: int
) -> None:
    """Write the target ids that each source id allows; the first `num_first` ids are always allowed.

    Marian refuses a file whose last source ids allow nothing, so these must allow something.
    """
    rows = [np.unique(each) for each in allowed]
    offsets = np.cumsum([0, *map(len, rows)]).astype("<u8")
    ids = np.concatenate(rows).astype("<u4")
    numbers = struct.pack("<QQQQ", num_first, num_best, len(offsets), len(ids))
    content = numbers + offsets.tobytes() + ids.tobytes()
    path.write_bytes(struct.pack("<QQ", _SHORTLIST, _checksum(content)) + content)


def _checksum(content: bytes) -> int:
    """Marian's hash of all whole numbers of 8 bytes."""
    seed, last = 0, (1 << 64) - 1
    for (number,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
        seed ^= (number + _GOLDEN + (seed << 6) + (seed >> 2)) & last
    return seed
