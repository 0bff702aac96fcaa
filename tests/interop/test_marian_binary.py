"""The bytes of Marian's binary files and shortlists, by hand from the source of Bergamot's Marian."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from allyouneed.interop.marian_binary import rounded_matrix, write_binary
from allyouneed.interop.marian_shortlist import write_shortlist

MATRIX = np.array([[1.0, -2.0, 0.5], [0.25, 0.0, 2.0]], np.float32)
ROUNDED = [[64, -127, 32], [16, 0, 127]]  # times 63.5; 63.5 and 31.75 become 64 and 32, 15.875 becomes 16


def test_a_matrix_is_rounded_to_127_at_most() -> None:
    values, factor = rounded_matrix(MATRIX)
    assert factor == 63.5
    assert values.tolist() == ROUNDED
    assert rounded_matrix(np.zeros((2, 2), np.float32))[0].tolist() == [[0, 0], [0, 0]]


def test_a_file_has_headers_names_shapes_and_aligned_contents(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "x_W": MATRIX,
        "Wemb": MATRIX,
        "b": MATRIX[:1],
        "special:model.yml": b"a: 1\n\0",
    }
    write_binary(tmp_path / "model.bin", arrays, {"x_W", "Wemb"})
    headers = [
        *(struct.pack("<QQQQ", 5, 0x4101, 2, 256), struct.pack("<QQQQ", 2, 0x0404, 2, 256)),
        *(struct.pack("<QQQQ", 18, 0x0101, 1, 256), struct.pack("<QQQQ", 4, 0x4101, 2, 256)),
    ]
    names = b"Wemb\0" + b"b\0" + b"special:model.yml\0" + b"x_W\0"
    shapes = struct.pack("<7i", 2, 3, 1, 3, 6, 2, 3)
    begin = struct.pack("<QQ", 1, 4) + b"".join(headers) + names + shapes
    begin += struct.pack("<Q", 256 - len(begin) - 8)
    contents = [
        struct.pack("<6bf", *ROUNDED[0], *ROUNDED[1], 63.5),
        struct.pack("<3f", 1.0, -2.0, 0.5),
        b"a: 1\n\0",
        struct.pack("<6bf", 64, 16, -127, 0, 32, 127, 63.5),  # transposed
    ]
    assert len(begin) < 256
    expected = begin.ljust(256, b"\0") + b"".join(each.ljust(256, b"\0") for each in contents)
    assert (tmp_path / "model.bin").read_bytes() == expected


def test_a_shortlist_has_offsets_and_ids_and_their_hash(tmp_path: Path) -> None:
    write_shortlist(tmp_path / "lex.bin", [np.array([7, 2]), np.array([2]), np.array([9, 9, 2])], 5, 50)
    numbers = [5, 50, 4, 5, 0, 2, 3, 5]
    ids = [2, 7, 2, 2, 9]  # two of four bytes each are one number of eight in the hash; the last is left out
    hashed, seed = [*numbers, 2 | 7 << 32, 2 | 2 << 32], 0
    for number in hashed:
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64
    expected = struct.pack("<QQ8Q5I", 0xF11A48D5013417F5, seed, *numbers, *ids)
    assert (tmp_path / "lex.bin").read_bytes() == expected
