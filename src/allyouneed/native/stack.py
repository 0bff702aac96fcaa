"""A whole encoder or decoder in one call of `stack.c`, from token ids to hidden states."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.native.arrays import Float32, Int64, address_of, empty
from allyouneed.native.attention_kernels import Heads, KeysValues, Rows
from allyouneed.native.header import structures
from allyouneed.native.library import library
from allyouneed.native.linear import PackedLinear

ACTIVATIONS = "relu", "gelu", "swish"
"""Activations in the order of `enum activation` in `kernels.h`."""


@dataclass(frozen=True)
class Norm:
    """Layer normalisation."""

    gains: Float32[np.ndarray, " d_model"]
    biases: Float32[np.ndarray, " d_model"]
    epsilon: float

    def structure(self) -> ctypes.Structure:
        """`struct norm`."""
        for vector in (self.gains, self.biases):
            assert vector.dtype == np.float32
            assert vector.flags.c_contiguous
        return structures()["norm"](self.gains.ctypes.data, self.biases.ctypes.data, self.epsilon)


@dataclass(frozen=True)
class Sublayer:
    """`last(f(first(x)))`, where f is attention or an activation, with its normalisation.

    A recurrent unit (SSRU) has no last map.
    """

    first: PackedLinear
    last: PackedLinear | None
    norm: Norm

    def structure(self) -> ctypes.Structure:
        """`struct sublayer`."""
        last = None if self.last is None else self.last.address
        return structures()["sublayer"](self.first.address, last, self.norm.structure())


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder or the decoder (paper 3.1).

    The first map of self-attention returns concatenated queries, keys and values, that of cross-attention
    queries. The first map of a feed-forward network with ReLU ends with it. In the place of self-attention, a
    recurrent unit (SSRU) has a first map that returns concatenated forget gates and candidates.
    """

    self_attention: Sublayer
    cross_attention: Sublayer | None
    feed_forward: Sublayer

    def structure(self) -> ctypes.Structure:
        """`struct layer`."""
        cross = self.cross_attention
        crossing = structures()["sublayer"]() if cross is None else cross.structure()
        return structures()["layer"](self.self_attention.structure(), crossing, self.feed_forward.structure())


@dataclass(frozen=True)
class StackSettings:
    """Settings that all layers of a stack share.

    Args:
        pre_norm: Whether normalisation comes before a sub-layer, not after the sum.
        activation: Activation of the feed-forward network, one of `ACTIVATIONS`.
        zero_token: Token whose embedding is a zero vector, if there is one.
        alias: A token, and the one whose embedding it has; -1 for none.
        threads: Number of threads that share the tokens.
    """

    pre_norm: bool = False
    activation: str = "relu"
    zero_token: int | None = None
    alias: tuple[int, int] = (-1, -1)
    threads: int = 1


@dataclass(frozen=True)
class Tables:
    """Tables of positional encodings; each covers all positions that are read.

    Args:
        encodings: Vectors added to the embeddings; None for no encodings.
        angles: Cosine and sine that turn each pair of components of queries and keys; None without rotation.
    """

    encodings: Float32[np.ndarray, "positions d_model"] | None = None
    angles: Float32[np.ndarray, "positions d_k"] | None = None

    def addresses(self) -> tuple[int | None, ...]:
        """The addresses of both tables, None for one that is absent."""
        return tuple(None if table is None else table.ctypes.data for table in (self.encodings, self.angles))


def cells(d_model: int) -> Heads:
    """The form in which the cells of recurrent units are stored: as values of one head without keys."""
    return Heads(1, 0, d_model, "float32")


class PackedStack:
    """An encoder or a decoder (paper 3.1) for inference, on the concatenated tokens of several sentences.

    A row of the result is the same bit for bit, whatever the other tokens and the number of threads.

    Args:
        embeddings: Embedding of each token (tokens, d_model), in float32, or as the bits of bfloat16.
        scale: Factor of the embeddings.
        heads: Heads of self-attention; for recurrent units those of `cells`.
        layers: Layers, the first one first.
        norm: Normalisation after the last layer, if there is one.
        settings: Settings that all layers share.
        cross_heads: Heads of cross-attention, in a decoder.
    """

    def __init__(
        self,
        embeddings: NDArray[Any],
        scale: float,
        heads: Heads,
        layers: Sequence[Layer],
        norm: Norm | None = None,
        settings: StackSettings = StackSettings(),
        cross_heads: Heads | None = None,
    ) -> None:
        assert embeddings.dtype in (np.float32, np.uint16)
        assert embeddings.flags.c_contiguous
        assert (layers[0].cross_attention is None) == (cross_heads is None)
        self.heads, self.num_layers = heads, len(layers)
        self._is_decoder = layers[0].cross_attention is not None
        self._query_width = cross_heads.structure.num_heads * cross_heads.structure.d_k if cross_heads else 0
        self.vocab_size, self.d_model = embeddings.shape
        """Number of tokens, and width of the hidden states."""
        self._layers = (structures()["layer"] * len(layers))(*(layer.structure() for layer in layers))
        self._pointed_to = embeddings, layers, norm, heads, cross_heads
        self._stack = structures()["stack"](
            len(layers),
            self.d_model,
            settings.threads,
            settings.pre_norm,
            ACTIVATIONS.index(settings.activation),
            -1 if settings.zero_token is None else settings.zero_token,
            *settings.alias,
            embeddings.dtype == np.uint16,
            scale,
            embeddings.ctypes.data,
            ctypes.addressof(self._layers),
            structures()["norm"]() if norm is None else norm.structure(),
            heads.structure,
            structures()["heads"]() if cross_heads is None else cross_heads.structure,
        )
        self.address = ctypes.addressof(self._stack)
        """Address of `struct stack`, valid for the lifetime of this object."""
        self._library = library()

    def __call__(
        self,
        ids: Int64[np.ndarray, " tokens"],
        positions: Int64[np.ndarray, " tokens"],
        tables: Tables,
        keys_values: KeysValues,
        own: Rows,
        first: int = 0,
        memory: tuple[KeysValues, Rows] | None = None,
        watched: int | None = None,
    ) -> Float32[np.ndarray, "tokens width"]:
        """The hidden states after the last layer, or the queries of a decoder layer's cross-attention.

        Args:
            ids: Token ids.
            positions: Position of each token in its sentence.
            tables: What is added at each position.
            keys_values: Keys and values of each layer; those of the tokens are written into them.
            own: Rows of `keys_values` that each token attends to.
            first: Row of `keys_values` for the first token; the others follow.
            memory: Decoder only: keys and values of the sources for each layer, and the rows of them that
                each token attends to.
            watched: Number of the layer, from 0, whose queries are returned, all heads' beside each other.
        """
        assert self._is_decoder == (memory is not None)
        assert first + len(ids) <= keys_values.num_rows
        self._check(ids, positions, own, *(() if memory is None else (memory[1],)))
        hidden, queries = empty(len(ids), self.d_model), None
        if watched is not None:
            assert memory is not None
            queries = empty(len(ids), self._query_width)
        tokens = structures()["tokens"](
            len(ids),
            address_of(ids),
            address_of(positions),
            *tables.addresses(),
            first,
            own.structure,
            *(() if memory is None else (memory[1].structure,)),
            **({} if queries is None else {"layer": watched, "queries": address_of(queries)}),
        )
        done = self._library.stack_forward(
            self.address,
            ctypes.addressof(tokens),
            keys_values.addresses,
            None if memory is None else memory[0].addresses,
            address_of(hidden),
        )
        if not done:
            raise MemoryError
        return hidden if queries is None else queries

    def _check(
        self, ids: Int64[np.ndarray, " tokens"], positions: Int64[np.ndarray, " tokens"], *read: Rows
    ) -> None:
        """Check what the kernel relies on."""
        for array in (ids, positions):
            assert array.dtype == np.int64
            assert array.flags.c_contiguous
            assert len(array) == len(ids)
        assert all(rows.num_queries == len(ids) for rows in read)
        assert ids.view(np.uint64).max() < self.vocab_size  # negative ones are large
