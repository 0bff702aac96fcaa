"""Blocks of tokens read by the native kernels: the tokens of all sentences are the rows of one product."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.native_engine import NativeDecoding, NativeEngine
from allyouneed.native import kernels
from allyouneed.native.arrays import Float32, Int64
from allyouneed.native.attention_kernels import Rows
from allyouneed.symbols import NEVER_PRODUCED

_GROUP = 8
"""Number of tokens whose attention is computed together."""


class NativeBlocks(NativeDecoding):
    """Sentences being written, one hypothesis each; a `speculation.BlockReader`.

    A token has the same bits in any block and any batch, those that it has when it is read alone.
    """

    def __init__(self, engine: NativeEngine) -> None:
        super().__init__(engine, beam_size=1)

    @property
    def most_positions(self) -> int | None:
        """Number of positions that the model has; None if there is no limit."""
        return self._engine.max_positions

    def read(
        self, places: Sequence[int], starts: Sequence[int], blocks: Sequence[Sequence[int]]
    ) -> Float32[np.ndarray, "tokens d_model"]:
        """Read a block of tokens in each of some sentences, as `speculation.BlockReader`."""
        counts, engine = np.array([len(block) for block in blocks]), self._engine
        ids = np.array([token for block in blocks for token in block])
        ends = np.array(starts) + counts
        self._make_room(int(ends.max()), len(ids))
        first = self._written.reserve(len(ids))
        sentences = np.repeat(places, counts)
        positions = np.arange(len(ids)) + np.repeat(ends - np.cumsum(counts), counts)
        self._ancestry[sentences, 0, positions] = np.arange(first, first + len(ids))
        self._positions[np.array(places)] = ends
        past = Rows(
            self._ancestry,
            sentences * self._ancestry.shape[2],
            (positions + 1).astype(np.int32),
            _GROUP,
            positions,
        )
        of_memory = self._memory_rows(sentences, _GROUP)
        tables = engine.target_tables.covering(int(ends.max()))
        return engine.decoder(
            ids, positions, tables, self._written, past, first, memory=(self._memory, of_memory)
        )

    def to_logits(self, hidden: Float32[np.ndarray, "tokens d_model"]) -> Float32[np.ndarray, "tokens vocab"]:
        """The logits of hidden states."""
        return self._engine.project(hidden)

    def best(self, hidden: Float32[np.ndarray, "*rows d_model"]) -> Int64[np.ndarray, "*rows"]:
        """The most probable next token of each hidden state, by logits that are not exact."""
        _, ids = kernels.top_log_probs(self._engine.project_roughly(hidden), 1, NEVER_PRODUCED)
        return ids[..., 0]

    def ahead(self, hidden: Float32[np.ndarray, "rows d_model"]) -> Float32[np.ndarray, "rows heads d_model"]:
        """The states of the heads that propose tokens."""
        assert self._engine.block_heads is not None
        first, lasts = self._engine.block_heads
        inner = first(hidden).reshape(len(hidden), len(lasts), -1)
        return np.stack(
            [hidden + last(np.ascontiguousarray(inner[:, i])) for i, last in enumerate(lasts)], axis=1
        )

    def stacked(self, rows: Sequence[NDArray[np.float32]]) -> Float32[np.ndarray, "rows width"]:
        """Rows of hidden states or logits as one array; of a single one, a view."""
        return rows[0][None] if len(rows) == 1 else np.stack(rows)
