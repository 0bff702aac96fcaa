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

_LIBC = ctypes.CDLL(None)
_LIBC.aligned_alloc.argtypes, _LIBC.aligned_alloc.restype = [ctypes.c_size_t] * 2, ctypes.c_void_p
_LIBC.free.argtypes, _LIBC.free.restype = [ctypes.c_void_p], None
_CACHE_LINE = 64  # bytes; vectors of the widest instruction sets are as long


class _Memory:
    """Memory that begins at a cache line, as other arrays need not, which would slow the kernels.

    NumPy would ask for huge pages for large arrays, whose zeros cost a tenth of a batch in float32.
    """

    def __init__(self, num_bytes: int) -> None:
        self._address = _LIBC.aligned_alloc(_CACHE_LINE, max(1, -(-num_bytes // _CACHE_LINE)) * _CACHE_LINE)
        if self._address is None:
            raise MemoryError
        place = {"data": (self._address, False), "shape": (num_bytes,), "typestr": "|u1"}
        self.__array_interface__ = {"version": 3, **place}

    def __del__(self, free: Any = _LIBC.free) -> None:  # an argument, as globals may be gone at the end
        free(self._address)


def empty(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    """An array that begins at a cache line; not filled."""
    room = np.asarray(_Memory(math.prod(shape) * np.dtype(dtype).itemsize))
    array: NDArray[Any] = room.view(dtype).reshape(shape)
    return array


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The array, contiguous from a cache line on; a copy if it is not."""
    if array.flags.c_contiguous and array.ctypes.data % _CACHE_LINE == 0:
        return array
    return copied(array)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that is contiguous from a cache line on."""
    copy = empty(*array.shape, dtype=array.dtype)
    copy[...] = array
    return copy


def address_of(array: NDArray[Any]) -> int:
    """The address of a contiguous, writable array, valid for its lifetime; 0 if it is empty."""
    # Four times as fast as `array.ctypes.data`, which a step would call a dozen times.
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data)) if array.size else 0


def of_bfloat16_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The values of the bits of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the values, rounded to bfloat16; ties go to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
