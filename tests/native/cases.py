"""Cases for `driver.c`: memory, calls of functions of `kernels.h`, and what the memory then holds.

A case is written as a name, then lists of buffers, pointers in buffers, calls, outputs with expected values,
pairs of buffers with the same bits, and buffers to show. A list begins with its length. Numbers have 8 bytes,
little-endian; a text or buffer begins with its size and is padded to a multiple of 8 bytes. An address is a
buffer's index, or -1 for NULL, and an offset.
"""

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from allyouneed.native.header import functions, structures

_TYPES = torch.float32, torch.bfloat16, torch.int32, torch.int64, torch.float64, torch.uint8
"""Types of output, in the order of `enum type` in `driver.c`."""
_INTEGER, _NUMBER, _POINTER = range(3)
_EXACT = 2**53
"""Integers below it are exact in float64."""


@dataclass(frozen=True)
class Address:
    """A place in the memory of a case, in bytes from the start of a buffer."""

    buffer: int
    offset: int = 0

    def __add__(self, num_bytes: int) -> "Address":
        return Address(self.buffer, self.offset + num_bytes)

    def written(self) -> bytes:
        return struct.pack("<qq", self.buffer, self.offset)


NULL = Address(-1)


class Case:
    """One case; its functions return 0 only if they fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._buffers: list[bytes] = []
        self._pointers: list[bytes] = []
        self._calls: list[bytes] = []
        self._outputs: list[bytes] = []
        self._pairs: list[bytes] = []
        self._shown: list[bytes] = []

    def tensor(self, tensor: Tensor) -> Address:
        """A copy of a tensor, contiguous."""
        flat = tensor.detach().contiguous().flatten()
        return self._buffer(flat.view(torch.uint8).numpy().tobytes())

    def room(self, num_elements: int, dtype: torch.dtype = torch.float32) -> Address:
        """Memory for an output, filled with NaN or -1."""
        return self._buffer(b"\xff" * (num_elements * dtype.itemsize))

    def structure(self, kind: str, **fields: Any) -> Address:
        """A structure of `kernels.h`; a field is a number, an address or a dictionary of fields, or 0."""
        return self.structures(kind, [fields])

    def structures(self, kind: str, rows: list[dict[str, Any]]) -> Address:
        """Structures of `kernels.h`, one after the other."""
        made = [structures()[kind]() for _ in rows]
        for i, (each, fields) in enumerate(zip(made, rows, strict=True)):
            self._fill(each, Address(len(self._buffers), i * ctypes.sizeof(each)), fields)
        return self._buffer(b"".join(map(bytes, made)))

    def pointers(self, targets: list[Address]) -> Address:
        """Pointers, one after the other."""
        size = ctypes.sizeof(ctypes.c_void_p)
        for i, target in enumerate(targets):
            self._pointers.append(Address(len(self._buffers), i * size).written() + target.written())
        return self._buffer(bytes(size * len(targets)))

    def call(self, function: str, *arguments: float | Address | None) -> None:
        """Call a function of `kernels.h`; None is NULL."""
        written = [_argument(*each) for each in zip(functions()[function], arguments, strict=True)]
        self._calls.append(_text(function) + _list(written))

    def expect(
        self,
        address: Address,
        expected: Tensor,
        bound: Tensor | float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Expect contiguous values of a type, each within its bound."""
        assert expected.is_floating_point() or expected.long().abs().max() < _EXACT
        bounds = torch.as_tensor(bound, dtype=torch.float64).expand(expected.shape)
        assert bounds.isfinite().all()
        head = struct.pack("<q", _TYPES.index(dtype)) + address.written()
        numbers = (each.detach().double().contiguous().numpy().tobytes() for each in (expected, bounds))
        self._outputs.append(head + struct.pack("<q", expected.numel()) + b"".join(numbers))

    def expect_close(self, address: Address, expected: Tensor, *, atol: float, rtol: float) -> None:
        """Expect float32 values by the rule of `torch.testing.assert_close`."""
        self.expect(address, expected, atol + rtol * expected.abs())

    def expect_same_bits(self, left: Address, right: Address) -> None:
        """Expect that two buffers of the same size hold the same bits."""
        size = len(self._buffers[left.buffer])
        assert size == len(self._buffers[right.buffer])
        self._pairs.append(left.written() + right.written() + struct.pack("<q", size))

    def show(self, address: Address) -> None:
        """Let the driver return a buffer."""
        self._shown.append(struct.pack("<q", address.buffer))

    def written(self) -> bytes:
        """The case as `driver.c` reads it."""
        lists = self._pointers, self._calls, self._outputs, self._pairs, self._shown
        return _text(self.name) + _list(map(_sized, self._buffers)) + b"".join(map(_list, lists))

    def _buffer(self, contents: bytes) -> Address:
        self._buffers.append(contents)
        return Address(len(self._buffers) - 1)

    def _fill(self, made: ctypes.Structure, at: Address, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            place = at + getattr(type(made), name).offset
            if isinstance(value, Address):
                self._pointers.append(place.written() + value.written())
            elif isinstance(value, dict):
                self._fill(getattr(made, name), place, value)
            else:
                setattr(made, name, value)


def file_of(cases: list[Case]) -> bytes:
    """Cases as `driver.c` reads them; each has a name of its own."""
    assert len({case.name for case in cases}) == len(cases)
    return _list(case.written() for case in cases)


def _argument(kind: Any, value: float | Address | None) -> bytes:
    """An argument, after its kind."""
    if kind is ctypes.c_void_p:
        assert value is None or isinstance(value, Address)
        return struct.pack("<q", _POINTER) + (value or NULL).written()
    if kind is ctypes.c_float:
        return struct.pack("<qd", _NUMBER, value)
    return struct.pack("<qq", _INTEGER, value)


def _list(parts: Iterable[bytes]) -> bytes:
    written = list(parts)
    return struct.pack("<q", len(written)) + b"".join(written)


def _sized(contents: bytes) -> bytes:
    return struct.pack("<q", len(contents)) + contents + bytes(-len(contents) % 8)


def _text(text: str) -> bytes:
    return _sized(text.encode() + b"\0")
