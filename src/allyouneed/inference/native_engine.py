"""The fastest Transformer decoder for a CPU: packed weights, no padding, no reordering of keys and values.

It computes the same function as `model`. Each row of a product is computed independently of the others, so a
sentence has the same bits in any batch and with any number of threads.
"""

import functools
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.inference.engine import Engine, distinct, log_probs_of
from allyouneed.inference.native_layers import PositionTables, pack_heads, pack_linear, pack_stack
from allyouneed.inference.projection import FullProjection, Projection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import Transformer
from allyouneed.model.layers import DecoderLayer
from allyouneed.native.attention import KeysValues, Rows
from allyouneed.native.linear import InPlaceLinear, PackedLinear
from allyouneed.symbols import START

_FIRST_POSITIONS = 32
_GROUP = 8
"""Number of neighbouring positions whose attention is computed together."""
_STEPS_BEFORE_TIDYING = 32
"""Minimum number of steps between two sortings of the rows."""


class NativeEngine(Engine):
    """Packs a model's weights once and starts decodings with them.

    Args:
        model: A float32 model on the CPU.
        form: Precision of the matrix products, and of keys and values.
        threads: Number of threads per matrix product.
        shortlist: Shortlist of target tokens; default: the whole vocabulary.
    """

    def __init__(
        self,
        model: Transformer,
        form: str = "float32",
        threads: int = 1,
        shortlist: Shortlist | None = None,
    ) -> None:
        super().__init__(model, shortlist)
        self.model: Transformer = model
        self.form, self.threads = form, threads
        self.encoder = pack_stack(model, "source", form, threads)
        self.decoder = pack_stack(model, "target", form, threads)
        crossings = [cast("DecoderLayer", layer).cross_attention for layer in model.decoder]
        self.cross_heads = pack_heads(crossings[0], form)
        self._cross_key_values = [pack_linear(cross.key_value, form, threads) for cross in crossings]
        self._source_tables = PositionTables(model, "source")
        self.target_tables = PositionTables(model, "target")

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding with `beam_size` hypotheses per sentence."""
        return NativeDecoding(self, beam_size)

    @cached_property
    def project(self) -> PackedLinear:
        """The projection to all tokens."""
        return self._pack_tokens(slice(None))

    def projection(self) -> Projection:
        """Make the output projection of a decoding."""
        if self._shortlist is None:
            return FullProjection(InPlaceLinear(self.project))  # the largest matrix of a step by far
        return super().projection()

    def _pack_tokens(self, ids: Tensor | slice) -> PackedLinear:
        matrix, bias = self.model.embeddings.matrix("output"), self.model.embeddings.bias
        return PackedLinear(
            matrix[ids], None if bias is None else bias[ids], self.form, num_threads=self.threads
        )

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float[Tensor, " target_tokens"]:
        """Log-probability of each target token, as from `Engine`, but with the same bits in any batch."""
        memory = KeysValues(self.cross_heads, self.decoder.num_layers)
        sources = self.read_of(sources)
        self.remember(sources, memory)
        source_counts, counts = _lengths(sources), _lengths(targets)
        starts = np.repeat(_starts(counts), counts)
        positions = np.arange(len(starts)) - starts
        past = Rows(_all_rows(len(starts)), starts, (positions + 1).astype(np.int32), _GROUP, positions)
        of_memory = _of_sentences(memory.num_rows, _starts(source_counts), source_counts, counts, _GROUP)
        read = np.array([token for ids in targets for token in (START, *ids[:-1])])
        keys_values = KeysValues(self.decoder.heads, self.decoder.num_layers, shared=True)
        keys_values.reserve(len(read))
        tables = self.target_tables.covering(int(counts.max()))
        hidden = self.decoder(read, positions, tables, keys_values, past, memory=(memory, of_memory))
        expected = torch.tensor([token for ids in targets for token in ids])
        return log_probs_of(expected, hidden, self.project, self.model.config.target_vocab_size)

    def read_of(self, sources: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """What the encoder reads of sources with end symbols; see `Transformer.read_of`."""
        return sources if self.model.config.source_end else [source[:-1] or source for source in sources]

    def remember(self, sources: Sequence[Sequence[int]], memory: KeysValues) -> int:
        """Encode the sources and append their keys and values for every decoder layer.

        Returns:
            The first of their rows; the others follow, one per token.
        """
        encoded = self.encode(sources)
        first = memory.reserve(len(encoded))
        for layer, key_value in enumerate(self._cross_key_values):
            memory.store(layer, key_value(encoded), first)
        return first

    def encode(self, sources: Sequence[Sequence[int]]) -> Float[Tensor, "source_tokens d_model"]:
        """Encode the sources; return their memories, concatenated."""
        counts = _lengths(sources)
        ids = np.array([token for source in sources for token in source])
        starts = _starts(counts)
        positions = np.arange(len(ids)) - np.repeat(starts, counts)
        own = _of_sentences(len(ids), starts, counts, counts, _GROUP, positions)
        keys_values = KeysValues(self.encoder.heads, self.encoder.num_layers, shared=True)
        keys_values.reserve(len(ids))
        tables = self._source_tables.covering(int(counts.max()))
        return self.encoder(ids, positions, tables, keys_values, own)


class NativeDecoding:
    """Sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    Keys and values stay in the row where they were written. `ancestry` (sentences, beams, positions) gives
    the rows of each hypothesis.
    """

    def __init__(self, engine: NativeEngine, beam_size: int) -> None:
        self._engine, self._projection = engine, engine.projection()
        num_layers = engine.decoder.num_layers
        self._memory = KeysValues(engine.cross_heads, num_layers)
        self._written = KeysValues(engine.decoder.heads, num_layers)
        self._most_rows = 0
        self._starts = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int32)
        self._positions = np.empty(0, np.int64)
        self._ancestry = np.empty((0, beam_size, _FIRST_POSITIONS), np.int32)
        self._arrange()

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._forget_sources()
        self._projection.admit(sources)
        different, places = distinct(self._engine.read_of(sources))
        first = self._engine.remember(different, self._memory)
        counts, of_each = _lengths(different), places.numpy()
        self._starts = np.concatenate([self._starts, (first + _starts(counts))[of_each]])
        self._counts = np.concatenate([self._counts, counts[of_each]])
        self._positions = np.concatenate([self._positions, np.zeros(len(sources), np.int64)])
        new = np.zeros((len(sources), *self._ancestry.shape[1:]), np.int32)
        self._ancestry = np.concatenate([self._ancestry, new])
        self._arrange()

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; return the logits of the next token."""
        return self._projection(self._step(tokens.numpy(), None).view(*tokens.shape, -1))

    @property
    def skips(self) -> bool:
        """Whether `step_some` can be used: not with a shortlist, whose columns differ between sentences."""
        return self._projection.candidates is None

    def step_some(
        self, tokens: Int[Tensor, "sentences beams"], wanted: Bool[np.ndarray, "sentences beams"]
    ) -> Float[Tensor, "wanted vocab"]:
        """Append a token to some hypotheses; return the logits of their next tokens."""
        return self._projection(self._step(tokens.numpy(), np.flatnonzero(wanted))[:, None])[:, 0]

    def _step(
        self, tokens: NDArray[np.int64], wanted: NDArray[np.int64] | None
    ) -> Float[Tensor, "wanted d_model"]:
        """The hidden states of some hypotheses, given as indices, or all."""
        engine, longest = self._engine, int(self._positions.max()) + 1
        self._make_room(longest)
        ids, positions, past, sources = tokens.ravel(), self._of_rows, self._past, self._sources
        if wanted is not None:
            ids, positions = ids[wanted], positions[wanted]
            past, sources = past.of_some(wanted), sources.of_some(wanted)
        first = self._written.reserve(len(ids))
        rows = np.arange(first, self._written.num_rows, dtype=np.int32)
        if wanted is not None:  # any row will do for the others
            rows, read = np.full(tokens.size, first, np.int32), rows
            rows[wanted] = read
        self._ancestry[self._places[:, 0], :, self._positions] = rows.reshape(tokens.shape)
        hidden = engine.decoder(
            ids,
            positions,
            engine.target_tables.covering(longest),
            self._written,
            past,
            first,
            (self._memory, sources),
        )
        self._positions += 1
        self._of_rows += 1
        self._num_read += 1
        return hidden

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        self._ancestry[...] = self._ancestry[self._places, parents.numpy()]  # in place: kernels point to it

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences of the batch, without moving keys and values."""
        self._projection.keep(sentences)
        kept = sentences.numpy()
        self._starts, self._counts = self._starts[kept], self._counts[kept]
        self._positions = self._positions[kept]
        capacity = max(int(self._positions.max(initial=0)), _FIRST_POSITIONS)
        self._ancestry = self._ancestry[kept, :, :capacity]
        self._arrange()

    def _arrange(self) -> None:
        """Make the arrays that the kernels read, one entry per hypothesis; a step changes them in place."""
        num_sentences, beam_size, capacity = self._ancestry.shape
        self._places = np.arange(num_sentences)[:, None]
        self._of_rows = self._positions.repeat(beam_size)
        self._num_read = (self._of_rows + 1).astype(np.int32)
        starts = np.arange(0, len(self._of_rows) * capacity, capacity)
        self._ancestry = np.ascontiguousarray(self._ancestry)
        self._past = Rows(self._ancestry, starts, self._num_read, beam_size, self._of_rows)
        self._sources = _of_sentences(self._memory.num_rows, self._starts, self._counts, beam_size, beam_size)

    def _make_room(self, longest: int) -> None:
        """Prepare for one more position of each hypothesis."""
        if longest > self._ancestry.shape[2]:
            self._ancestry = np.concatenate([self._ancestry, np.zeros_like(self._ancestry)], axis=2)
            self._arrange()
        num_new = len(self._of_rows)
        if self._written.num_rows + num_new > self._most_rows:
            num_kept = self._tidy() if self._written.num_rows else 0
            self._most_rows = max(2 * num_kept, num_kept + _STEPS_BEFORE_TIDYING * num_new)

    def _tidy(self) -> int:
        """Drop the rows that no hypothesis attends to, and sort the others; return their number.

        Afterwards the rows of a sentence lie side by side, in the order in which attention reads them. As
        they are written, a step apart, they share few places in the processor's caches.
        """
        is_read = np.arange(self._ancestry.shape[2]) < self._positions[:, None]  # (sentences, positions)
        read = self._ancestry.transpose(0, 2, 1)[is_read]  # (rows of all sentences, beams)
        _, firsts = np.unique(read, return_index=True)
        kept = read.ravel()[np.sort(firsts)].astype(np.int64)
        places = np.zeros(self._written.num_rows, np.int32)
        places[kept] = np.arange(len(kept))
        self._ancestry = places[np.where(is_read[:, None], self._ancestry, 0)]
        self._written.keep(kept)
        self._arrange()
        return len(kept)

    def _forget_sources(self) -> None:
        """Drop the rows of departed sources once they are more than half of all rows."""
        if self._memory.num_rows > 2 * self._counts.sum():
            starts = _starts(self._counts)
            within = np.arange(self._counts.sum()) - starts.repeat(self._counts)
            self._memory.keep(self._starts.repeat(self._counts) + within)
            self._starts = starts


def _of_sentences(
    num_rows: int,
    starts: NDArray[np.int64],
    counts: NDArray[np.int32],
    num_queries: int | NDArray[np.int32],
    group: int,
    positions: NDArray[np.int64] | None = None,
) -> Rows:
    """The rows of each query's sentence, out of `num_rows`, with `num_queries` queries per sentence."""
    return Rows(_all_rows(num_rows), starts.repeat(num_queries), counts.repeat(num_queries), group, positions)


def _lengths(sequences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array([len(ids) for ids in sequences], np.int32)


def _starts(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """The first row of each sentence when sentences of `counts` rows are concatenated."""
    return np.cumsum(counts, dtype=np.int64) - counts


@functools.lru_cache(maxsize=8)
def _all_rows(num_rows: int) -> NDArray[np.int32]:
    return np.arange(num_rows, dtype=np.int32)
