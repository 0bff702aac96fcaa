"""y = x W^T + b for the few rows of a decoding step, computed by `linear.c`."""

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.native.arrays import Float32, address_of, bfloat16_bits, empty, of_bfloat16_bits
from allyouneed.native.header import structures
from allyouneed.native.library import FORMS, available, library
from allyouneed.storage.rounded_weights import round_rows

_ROWS_AT_ONCE = 512  # packing keeps to the processor's caches: 2.6 times as fast for an output layer


def layout_of(form: str) -> Any:
    """The `struct layout` of a form."""
    layout = structures()["layout"]()
    library().layout_of(FORMS.index(form), ctypes.addressof(layout))
    return layout


class Packed(NamedTuple):
    """The arrays that `struct linear` points to."""

    weight: NDArray[Any]
    start: NDArray[Any]
    scale: NDArray[np.float32]
    bias: NDArray[np.float32]


class PackedLinear:
    """A linear layer for inference, with or without ReLU; its weights are rounded to `form` and packed once.

    The rows of x are used as they are for "float32", rounded to bfloat16 for "bfloat16", and rounded to 255
    steps of max|row| / 127 for "int8". Its weights have such a step per output, or a larger one where the
    processor adds pairs of products in 16 bits. A row of y depends only on the same row of x and the weights,
    bit for bit, however many rows and threads there are.
    """

    def __init__(
        self,
        weight: NDArray[Any],  # (outputs, inputs), in float32 or the bits of bfloat16
        bias: Float32[np.ndarray, " outputs"] | None,
        form: str,
        *,
        relu: bool = False,
        num_threads: int = 1,
    ) -> None:
        if form not in available():
            raise ValueError(f"no native kernel for {form} on this machine; available: {sorted(available())}")
        self._library = library()
        self.num_outputs, self.num_inputs = weight.shape
        bias = np.zeros(len(weight), np.float32) if bias is None else bias
        self._packed = pack(weight, bias, form, layout_of(form))
        self._layer = structures()["linear"](
            self.num_inputs,
            self.num_outputs,
            FORMS.index(form),
            num_threads,
            0.0 if relu else -math.inf,
            *(array.ctypes.data for array in self._packed),
        )
        self.address = ctypes.addressof(self._layer)
        """Address of `struct linear`, valid for the lifetime of this object."""

    def __call__(
        self, x: Float32[np.ndarray, "*rows inputs"], room: Float32[np.ndarray, " numbers"] | None = None
    ) -> Float32[np.ndarray, "*rows outputs"]:
        """y for a contiguous x. It is written into `room` if given, which must be large enough."""
        assert x.dtype == np.float32
        assert x.flags.c_contiguous
        assert x.shape[-1] == self.num_inputs
        num_rows = x.size // self.num_inputs
        if room is None:
            room = empty(num_rows * self.num_outputs)
        y = room[: num_rows * self.num_outputs].reshape(*x.shape[:-1], self.num_outputs)
        if not self._library.linear_forward(self.address, address_of(x), num_rows, address_of(y)):
            raise MemoryError
        return y


class InPlaceLinear:
    """A packed layer that writes every result into the same memory."""

    def __init__(self, linear: PackedLinear) -> None:
        self.linear, self._room = linear, empty(0)

    def __call__(self, x: Float32[np.ndarray, "*rows inputs"]) -> Float32[np.ndarray, "*rows outputs"]:
        """The result of `PackedLinear`, valid until the next call."""
        return self.linear(x, self.room(x.size // self.linear.num_inputs))

    def room(self, num_rows: int) -> Float32[np.ndarray, " numbers"]:
        """Memory for the result of at least so many rows."""
        needed = num_rows * self.linear.num_outputs
        if needed > self._room.size:
            self._room = empty(needed)
        return self._room


def pack(
    weight: NDArray[Any],
    bias: Float32[np.ndarray, " outputs"],
    form: str,
    layout: Any,
) -> Packed:
    """Pack the weights in panels as `struct layout` describes, padded with zeros."""
    rows = max(1, _ROWS_AT_ONCE // layout.columns) * layout.columns
    packed: list[NDArray[Any]] = []
    for first in range(0, len(weight), rows):
        block = _pack_block(weight[first : first + rows], bias[first : first + rows], form, layout)
        if first == 0:
            num_panels = -(-len(weight) // layout.columns)
            lengths = num_panels, *[num_panels * layout.columns] * 3
            packed = [empty(n, *x.shape[1:], dtype=x.dtype) for n, x in zip(lengths, block, strict=True)]
        for whole, part, at_once in zip(
            packed, block, (rows // layout.columns, rows, rows, rows), strict=True
        ):
            place = first // rows * at_once
            whole[place : place + len(part)] = part
    return Packed(*packed)


def _pack_block(weight: NDArray[Any], bias: NDArray[np.float32], form: str, layout: Any) -> Packed:
    start, scale = bias, bias
    if weight.dtype == np.uint16:
        weight = of_bfloat16_bits(weight)
    if form == "int8":
        largest = np.abs(weight).max(axis=1)
        if layout.pairs:  # 127 steps, as rounding both weights adds one at most
            pairs = np.pad(weight, [(0, 0), (0, weight.shape[1] % 2)]).reshape(len(weight), -1, 2)
            largest = np.maximum(largest, np.abs(pairs.sum(axis=2)).max(axis=1))
        weight, scale = round_rows(weight, largest)
        start = -layout.offset * weight.sum(axis=1, dtype=np.int32)
    if form == "bfloat16":
        weight = bfloat16_bits(weight)
    num_outputs, num_inputs = weight.shape
    num_empty = -num_outputs % layout.columns
    num_missing = -num_inputs % (layout.values * layout.words)
    padded = np.pad(weight, [(0, num_empty), (0, num_missing)])
    panels = padded.reshape(len(padded) // layout.columns, layout.columns, -1, layout.values)
    return Packed(
        panels.swapaxes(1, 2),  # (panels, words, columns, values of a word)
        *(np.pad(array, (0, num_empty)) for array in (start, scale, bias)),
    )
