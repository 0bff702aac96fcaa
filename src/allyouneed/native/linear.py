"""y = x W^T + b for the few rows of a decoding step, computed by `linear.c`."""

import ctypes
import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from allyouneed.native.header import structures
from allyouneed.native.library import FORMS, available, library

_INT8_LIMIT = 127
_LEAST_SCALE = 1e-30  # keeps 0 / 0 out; rows of smaller weights shrink
_ROWS_AT_ONCE = 512  # packing keeps to the processor's caches: 2.6 times as fast for an output layer


def layout_of(form: str) -> Any:
    """The `struct layout` of a form."""
    layout = structures()["layout"]()
    library().layout_of(FORMS.index(form), ctypes.addressof(layout))
    return layout


class Packed(NamedTuple):
    """The tensors that `struct linear` points to."""

    weight: Tensor
    start: Tensor
    scale: Tensor
    bias: Tensor


class PackedLinear:
    """A linear layer for inference, with or without ReLU; its weights are rounded to `form` and packed once.

    The rows of x are used as they are for "float32", rounded to bfloat16 for "bfloat16", and rounded to 255
    steps of max|row| / 127 for "int8". Its weights have such a step per output, or a larger one where the
    processor adds pairs of products in 16 bits. A row of y depends only on the same row of x and the weights,
    bit for bit, however many rows and threads there are.
    """

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
        form: str,
        *,
        relu: bool = False,
        num_threads: int = 1,
    ) -> None:
        if form not in available():
            raise ValueError(f"no native kernel for {form} on this machine; available: {sorted(available())}")
        self._library = library()
        self.num_outputs, self.num_inputs = weight.shape
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        self._packed = pack(weight, bias, form, layout_of(form))
        self._layer = structures()["linear"](
            self.num_inputs,
            self.num_outputs,
            FORMS.index(form),
            num_threads,
            0.0 if relu else -math.inf,
            *(tensor.data_ptr() for tensor in self._packed),
        )
        self.address = ctypes.addressof(self._layer)
        """Address of `struct linear`, valid for the lifetime of this object."""

    def __call__(
        self, x: Float[Tensor, "*rows inputs"], room: Float[Tensor, " numbers"] | None = None
    ) -> Float[Tensor, "*rows outputs"]:
        """y for a contiguous float32 x on the CPU, without gradients.

        It is written into `room` if given, which must be large enough.
        """
        assert x.is_cpu
        assert x.dtype == torch.float32
        assert x.is_contiguous()
        assert x.size(-1) == self.num_inputs
        num_rows = x.numel() // self.num_inputs
        if room is None:
            room = x.new_empty(num_rows * self.num_outputs)
        y = room[: num_rows * self.num_outputs].view(*x.shape[:-1], self.num_outputs)
        if not self._library.linear_forward(self.address, x.data_ptr(), num_rows, y.data_ptr()):
            raise MemoryError
        return y


class InPlaceLinear:
    """A packed layer that writes every result into the same memory."""

    def __init__(self, linear: PackedLinear) -> None:
        self.linear, self._room = linear, torch.empty(0)

    def __call__(self, x: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """The result of `PackedLinear`, valid until the next call."""
        return self.linear(x, self.room(x.numel() // self.linear.num_inputs))

    def room(self, num_rows: int) -> Float[Tensor, " numbers"]:
        """Memory for the result of at least so many rows."""
        needed = num_rows * self.linear.num_outputs
        if needed > self._room.numel():
            self._room = torch.empty(needed)
        return self._room


@torch.no_grad()
def pack(
    weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"], form: str, layout: Any
) -> Packed:
    """Pack the weights in panels as `struct layout` describes, padded with zeros."""
    rows = max(1, _ROWS_AT_ONCE // layout.columns) * layout.columns
    blocks = zip(weight.split(rows), bias.split(rows), strict=True)
    parts = [_pack_block(*block, form, layout) for block in blocks]
    return Packed(*map(torch.cat, zip(*parts, strict=True)))


def _pack_block(weight: Tensor, bias: Tensor, form: str, layout: Any) -> Packed:
    weight, bias = weight.float(), bias.float()
    start, scale = bias, bias
    if form == "int8":
        largest = weight.abs().amax(dim=1)
        if layout.pairs:  # 127 steps, as rounding both weights adds one at most
            pairs = functional.pad(weight, (0, weight.size(1) % 2)).unflatten(1, (-1, 2))
            largest = largest.maximum(pairs.sum(dim=2).abs().amax(dim=1))
        scale = largest / _INT8_LIMIT
        weight = (weight / scale.clamp_min(_LEAST_SCALE)[:, None]).round()
        start = -layout.offset * weight.sum(dim=1, dtype=torch.int32)
    num_outputs, num_inputs = weight.shape
    num_empty = -num_outputs % layout.columns
    num_missing = -num_inputs % (layout.values * layout.words)
    padded = functional.pad(weight.to(getattr(torch, form)), (0, num_missing, 0, num_empty))
    panels = padded.unflatten(1, (-1, layout.values)).unflatten(0, (-1, layout.columns))
    return Packed(
        panels.transpose(1, 2).contiguous(),  # (panels, words, columns, values of a word)
        *(functional.pad(tensor, (0, num_empty)) for tensor in (start, scale, bias)),
    )
