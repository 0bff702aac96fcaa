"""Rows of keys and values: how they are stored, and which rows each query attends to."""

import ctypes

import numpy as np
from numpy.typing import NDArray

from allyouneed.native.arrays import Float32, Int32, Int64, address_of, empty
from allyouneed.native.header import structures
from allyouneed.native.library import FORMS, library

_FIRST_ROWS = 64  # of a table: those of a sentence alone, which has many steps and little work in each


class Rows:
    """The rows that each query attends to: query i attends to `rows[starts[i] : starts[i] + counts[i]]`.

    Args:
        rows: Row indices of all queries, read as flattened.
        starts: Index of each query's first entry in `rows`.
        counts: Number of rows of each query, at least 1.
        group: Number of queries computed together because they share rows; it does not change the result.
        positions: Position of each query, needed by biases (ALiBi) if entry j of each query has position j.
    """

    def __init__(
        self,
        rows: Int32[np.ndarray, "*shape"],
        starts: Int64[np.ndarray, " queries"],
        counts: Int32[np.ndarray, " queries"],
        group: int = 1,
        positions: Int64[np.ndarray, " queries"] | None = None,
    ) -> None:
        for array, dtype in ((rows, np.int32), (starts, np.int64), (counts, np.int32)):
            assert array.dtype == dtype
            assert array.flags.c_contiguous
        assert len(starts) == len(counts)
        assert positions is None or (positions.dtype == np.int64 and positions.flags.c_contiguous)
        assert positions is None or len(positions) == len(counts)
        self.num_queries = len(counts)
        self._pointed_to = rows, starts, counts, positions
        addresses = (address_of(array) for array in (rows, starts, counts))
        self.structure = structures()["attended"](
            *addresses, None if positions is None else address_of(positions), group
        )
        """`struct attended`, valid for the lifetime of this object."""


class Heads:
    """Heads of attention, and how their keys and values are stored.

    Args:
        num_heads: Number of heads.
        d_k: Width of the queries and keys of one head.
        d_v: Width of the values of one head.
        form: Form of stored keys and values, one of `FORMS`; in int8, each has a step size per head.
        slopes: What a score loses per position between query and key (ALiBi), per head.
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        form: str,
        slopes: Float32[np.ndarray, " heads"] | None = None,
    ) -> None:
        self.width = num_heads * (d_k + d_v)
        self._library, self._slopes = library(), slopes
        self.structure = structures()["heads"](
            num_heads, d_k, d_v, FORMS.index(form), None if slopes is None else address_of(slopes)
        )
        self._address = ctypes.addressof(self.structure)
        self.row_words: int = self._library.row_words(self._address)
        """Number of 32-bit words in a row of keys and values."""

    def room(self, num_rows: int) -> Float32[np.ndarray, "{num_rows} words"]:
        """Allocate rows of keys and values."""
        return empty(num_rows, self.row_words)

    def store(
        self,
        keys_values: Float32[np.ndarray, "rows keys_values"],
        rows: Float32[np.ndarray, "rows words"],
    ) -> None:
        """Write the keys of all heads and then their values, row by row, in the form of stored rows."""
        assert rows.flags.c_contiguous
        assert keys_values.flags.c_contiguous
        assert keys_values.shape == (len(rows), self.width)
        self._library.store_keys_values(
            self._address, len(rows), address_of(keys_values), self.width, address_of(rows)
        )


class KeysValues:
    """Keys and values of every layer, in tables that double when they are full.

    Args:
        heads: Heads of attention.
        num_layers: Number of layers.
        shared: Whether all layers use one table in turn, for sentences whose tokens are read at once.
    """

    def __init__(self, heads: Heads, num_layers: int, *, shared: bool = False) -> None:
        self._heads, self._num_layers, self._shared = heads, num_layers, shared
        self.num_rows = 0
        """Number of rows in use."""
        self._set([heads.room(0)] * num_layers)

    def reserve(self, num_rows: int) -> int:
        """Make room for more rows; return the index of the first."""
        first, needed = self.num_rows, self.num_rows + num_rows
        if needed > self._capacity:
            if self._shared:
                self._set([self._heads.room(needed)] * self._num_layers)
            else:
                self._grow(max(needed, 2 * self._capacity, _FIRST_ROWS))
        self.num_rows = needed
        return first

    def store(self, layer: int, keys_values: Float32[np.ndarray, "rows keys_values"], first: int) -> None:
        """Write keys and values of a layer from row `first` on."""
        self._heads.store(keys_values, self._tables[layer][first : first + len(keys_values)])

    def keep(self, rows: Int64[np.ndarray, " kept"]) -> None:
        """Move these rows to the beginning and drop the others."""
        self.num_rows = len(rows)
        for table in self._tables:
            table[: len(rows)] = table[rows]

    def _set(self, tables: list[NDArray[np.float32]]) -> None:
        self._tables, self._capacity = tables, len(tables[0])
        self._pointers = (ctypes.c_void_p * len(tables))(*map(address_of, tables))
        self.addresses = ctypes.addressof(self._pointers)
        """Address of the addresses of the tables."""

    def _grow(self, size: int) -> None:
        for number, table in enumerate(self._tables):  # in turn: two sizes of one table only, at any time
            grown = self._heads.room(size)
            grown[: self.num_rows] = table[: self.num_rows]
            self._tables[number] = grown
            self._pointers[number] = address_of(grown)
        self._capacity = size
