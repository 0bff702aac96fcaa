"""Files of safetensors, read into memory or mapped."""

import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from allyouneed.errors import ModelError, UserError
from allyouneed.storage.publish import MAX_WEIGHT_BYTES, open_regular

if TYPE_CHECKING:
    from torch import Tensor

_MAX_HEADER_BYTES = 100_000_000
"""The limit of safetensors itself."""
_TYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"},
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U8": "<u1", "BOOL": "?"},
}
"""Type in a file -> NumPy's, which has no bfloat16."""


class MappedTensors(Mapping[str, NDArray[Any]]):
    """The arrays of a file, in memory that is mapped from it, which is read when it is first needed.

    Values of a type that NumPy does not have are uint8; those in bfloat16 are their bits.
    """

    def __init__(self, content: mmap.mmap, header: Mapping[str, Any], start: int) -> None:
        self._content, self._header, self._start = content, header, start

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._header[name]
        first, end = self._place(name)
        found = np.frombuffer(self._content, np.uint8, end - first, first)
        kind = _TYPES.get(entry["dtype"])
        return found if kind is None else found.view(kind).reshape(entry["shape"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)

    def release(self, name: str) -> None:
        """Give the memory of an array back to the system, which reads the file again when needed."""
        first, end = self._place(name)
        first, end = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if end > first:
            self._content.madvise(mmap.MADV_DONTNEED, first, end - first)

    def _place(self, name: str) -> tuple[int, int]:
        first, end = self._header[name]["data_offsets"]
        return self._start + first, self._start + end


def map_tensors(path: Path) -> MappedTensors:
    """The arrays of a file, mapped.

    Raises:
        ModelError: The file is missing, no regular file, larger than any model, or damaged.
    """
    with _damage_told(path):
        with open_regular(path, MAX_WEIGHT_BYTES) as file:
            header, start = _read_header(file)
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        with safe_open(path, "numpy"):  # checks that the places of tensors fit their shapes
            return MappedTensors(content, header, start)


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """The tensors of a file; raises as `map_tensors`."""
    from safetensors.torch import load

    with _damage_told(path):
        with open_regular(path, MAX_WEIGHT_BYTES) as file:
            _read_header(file)
            file.seek(0)
            content = file.read()
        return load(content)  # its errors are no errors of the disk


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """Turn the errors of reading a damaged file into a ModelError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # safetensors raises its own type, ValueError, KeyError or MemoryError
        fault = f"is not a valid tensor file: {error}; take another copy of {path.parent}"
        raise ModelError(f"{path}: {fault}") from None


def _read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The entry of each tensor, and where their content begins; the file must have the size that it says."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_MAX_HEADER_BYTES, size - 8):
        raise ValueError(f"its header has {length:,} bytes")
    header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    ends = [entry["data_offsets"][1] for entry in header.values()]
    if max(ends, default=0) != size - 8 - length:
        raise ValueError(f"it has {size:,} bytes, other than its header says")
    return header, 8 + length
