"""A whole encoder or decoder layer in one call of `layer.c`."""

import ctypes
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.native.header import structures
from allyouneed.native.kernels import Rows
from allyouneed.native.library import library
from allyouneed.native.linear import PackedLinear


@dataclass(frozen=True)
class Sublayer:
    """`LayerNorm(x + last(f(first(x))))`, where f is attention or the identity."""

    first: PackedLinear
    last: PackedLinear
    gains: Float[Tensor, " d_model"]
    biases: Float[Tensor, " d_model"]
    epsilon: float


def _structure(sublayer: Sublayer | None) -> ctypes.Structure:
    """`struct sublayer` of `kernels.h`."""
    if sublayer is None:
        return structures()["sublayer"]()
    vectors = sublayer.gains, sublayer.biases
    for vector in vectors:
        assert vector.dtype == torch.float32
        assert vector.is_contiguous()
    addresses = sublayer.first.address, sublayer.last.address, *(each.data_ptr() for each in vectors)
    return structures()["sublayer"](*addresses, sublayer.epsilon)


class PackedLayer:
    """A layer (paper 3.1) for inference, on the concatenated rows of several sentences.

    A row of the result is the same bit for bit, whatever the other rows and the number of threads.

    Args:
        heads: Number of heads, width of their keys, and width of their values.
        self_attention: Self-attention; its first map returns concatenated queries, keys and values.
        feed_forward: Feed-forward network; its first map ends with ReLU.
        cross_attention: Cross-attention, whose first map returns queries; None in the encoder.
        threads: Number of threads that share the rows.
    """

    def __init__(
        self,
        heads: tuple[int, int, int],
        self_attention: Sublayer,
        feed_forward: Sublayer,
        cross_attention: Sublayer | None = None,
        threads: int = 1,
    ) -> None:
        num_heads, d_k, d_v = heads
        self.keys_values_width = num_heads * (d_k + d_v)
        self._sublayers = self_attention, feed_forward, cross_attention  # the structure points into them
        in_order = self_attention, cross_attention, feed_forward
        self._layer = structures()["layer"](*heads, threads, *map(_structure, in_order))
        self._library = library()

    def __call__(
        self,
        x: Float[Tensor, "rows d_model"],
        keys_values: Float[Tensor, "read keys_values"],
        first: int,
        own: Rows,
        memory: Float[Tensor, "memory keys_values"] | None = None,
        of_memory: Rows | None = None,
    ) -> Float[Tensor, "rows d_model"]:
        """The output of the layer.

        Args:
            x: Input of the layer.
            keys_values: Per row, the keys and then the values of all heads; those of x are written into it.
            first: Row of `keys_values` for the first row of x; the others follow.
            own: Rows of `keys_values` that each row of x attends to in self-attention.
            memory: Keys and values of the sources, laid out as `keys_values`.
            of_memory: Rows of `memory` that each row of x attends to.
        """
        for table in (x, keys_values) if memory is None else (x, keys_values, memory):
            assert table.is_cpu
            assert table.dtype == torch.float32
            assert table.is_contiguous()
            if table is not x:
                assert table.size(1) == self.keys_values_width
        assert x.size(1) == len(self._sublayers[0].gains)
        assert own.num_queries == len(x)
        assert of_memory is None or of_memory.num_queries == len(x)
        assert first + len(x) <= len(keys_values)
        assert (self._sublayers[2] is None) == (memory is None) == (of_memory is None)
        y = torch.empty_like(x)
        done = self._library.layer_forward(
            ctypes.addressof(self._layer),
            len(x),
            x.data_ptr(),
            keys_values.data_ptr(),
            first,
            own.address,
            None if memory is None else memory.data_ptr(),
            None if of_memory is None else of_memory.address,
            y.data_ptr(),
        )
        if not done:
            raise MemoryError
        return y
