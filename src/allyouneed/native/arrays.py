"""Memory that the kernels read and write."""

import ctypes
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float32, Float64, Int32, Int64
else:  # it takes as long to import as NumPy, and without PyTorch nothing else needs it

    class _Shaped:
        """An annotation `Float32[np.ndarray, "axes"]`, which only says what an array holds."""

        def __class_getitem__(cls, _: object) -> Any:
            return np.ndarray

    Bool = Float32 = Float64 = Int32 = Int64 = _Shaped

__all__ = ["Bool", "Float32", "Float64", "Int32", "Int64"]

_CACHE_LINE = 64  # bytes; vectors of the widest instruction sets are as long


def empty(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    """An array that begins at a cache line, as others need not, which would slow the kernels; not filled."""
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(num_bytes + _CACHE_LINE, np.uint8)
    first = -room.ctypes.data % _CACHE_LINE
    array: NDArray[Any] = room[first : first + num_bytes].view(dtype).reshape(shape)
    return array


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The array, contiguous from a cache line on; a copy if it is not."""
    if array.flags.c_contiguous and array.ctypes.data % _CACHE_LINE == 0:
        return array
    copy = empty(*array.shape, dtype=array.dtype)
    copy[...] = array
    return copy


def address_of(array: NDArray[Any]) -> int:
    """The address of a contiguous, writable array, valid for its lifetime; 0 if it is empty."""
    # Four times as fast as `array.ctypes.data`, which a step would call a dozen times.
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data)) if array.size else 0


def bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the values, rounded to bfloat16; ties go to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
