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
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.inference.engine import Engine, distinct, log_probs_of
from allyouneed.inference.native_layers import PositionTables, pack_heads, pack_linear, pack_stack
from allyouneed.inference.projection import FullProjection, Projection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import NEVER_PRODUCED, Candidates
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model import Transformer
from allyouneed.model.layers import DecoderLayer
from allyouneed.native.attention_kernels import KeysValues, Rows
from allyouneed.native.beam_kernels import NativeBeams
from allyouneed.native.decoding import Hypotheses, RowNumbers
from allyouneed.native.linear import InPlaceLinear, PackedLinear
from allyouneed.native.stack import Tables
from allyouneed.symbols import START

_NEVER_PRODUCED = np.array(NEVER_PRODUCED, np.int64)
_FIRST_POSITIONS = 32
_GROUP = 8
"""Number of neighbouring positions whose attention is computed together."""
_STEPS_BEFORE_TIDYING = 32
"""Minimum number of steps between two sortings of the rows."""


class NativeEngine(Engine):
    """Packs a model's weights once and starts decodings with them.

    `model` is in float32, on the CPU; `form` is the precision of products, keys and values.
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

    def projection_to_all(self) -> InPlaceLinear | None:
        """Make a decoding's projection to all tokens, its largest matrix by far; None with a shortlist."""
        return InPlaceLinear(self.project) if self._shortlist is None else None

    def projection(self) -> Projection:
        """Make the output projection of a decoding."""
        to_all = self.projection_to_all()
        return super().projection() if to_all is None else FullProjection(to_all)

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
        of_memory = _of_sentences(memory.num_rows, _starts(source_counts), source_counts, counts)
        read = np.array([token for ids in targets for token in (START, *ids[:-1])])
        keys_values = KeysValues(self.decoder.heads, self.decoder.num_layers, shared=True)
        keys_values.reserve(len(read))
        tables = self.target_tables.covering(int(counts.max()))
        hidden = self.decoder(read, positions, tables, keys_values, past, memory=(memory, of_memory))
        expected = torch.tensor([token for ids in targets for token in ids])
        return log_probs_of(expected, hidden, self.project, self.model.config.target_vocab_size)

    def read_of(self, sources: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """The tokens of sources with end symbols that the encoder reads; see `Transformer.read_of`."""
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
        own = _of_sentences(len(ids), starts, counts, counts, positions)
        keys_values = KeysValues(self.encoder.heads, self.encoder.num_layers, shared=True)
        keys_values.reserve(len(ids))
        tables = self._source_tables.covering(int(counts.max()))
        return self.encoder(ids, positions, tables, keys_values, own)


class NativeDecoding:
    """Sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    `ancestry` (sentences, beams, positions) gives the rows of each hypothesis.
    """

    def __init__(self, engine: NativeEngine, beam_size: int) -> None:
        self._engine, self._to_all = engine, engine.projection_to_all()
        self._projection = engine.projection() if self._to_all is None else FullProjection(self._to_all)
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
        return self._projection(self._with_room().read(tokens.numpy(), self._tables()))

    @property
    def searches(self) -> bool:
        """Whether `search` can be used: not with a shortlist, whose columns differ between sentences."""
        return self._to_all is not None

    def search(
        self, beams: NativeBeams, cannot_end: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Do a whole step of beam search, as `SearchingDecoding`."""
        assert self._to_all is not None
        hypotheses = self._with_room()
        return hypotheses.search(beams, self._tables(), self._to_all, _NEVER_PRODUCED, cannot_end)

    def _tables(self) -> Tables:
        return self._engine.target_tables.covering(self._hypotheses.longest + 1)

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        self._hypotheses.reorder(parents.numpy())

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
        """Hand over the arrays, which the kernels change in place, until some are replaced."""
        self._ancestry = np.ascontiguousarray(self._ancestry)
        rows = _all_rows(self._memory.num_rows)
        numbers = RowNumbers(self._positions, self._ancestry, rows, self._starts, self._counts)
        self._hypotheses = Hypotheses(self._engine.decoder, self._written, self._memory, numbers)

    def _with_room(self) -> Hypotheses:
        """The hypotheses, with room for one more position of each."""
        num_sentences, beam_size, num_positions = self._ancestry.shape
        if self._hypotheses.longest >= num_positions:
            self._ancestry = np.concatenate([self._ancestry, np.zeros_like(self._ancestry)], axis=2)
            self._arrange()
        num_new = num_sentences * beam_size
        if self._written.num_rows + num_new > self._most_rows:
            num_kept = self._tidy() if self._written.num_rows else 0
            self._most_rows = max(2 * num_kept, num_kept + _STEPS_BEFORE_TIDYING * num_new)
        return self._hypotheses

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
    num_queries: NDArray[np.int32],
    positions: NDArray[np.int64] | None = None,
) -> Rows:
    """The rows of each query's sentence, out of `num_rows`, with `num_queries` queries per sentence."""
    repeated = starts.repeat(num_queries), counts.repeat(num_queries)
    return Rows(_all_rows(num_rows), *repeated, _GROUP, positions)


def _lengths(sequences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array([len(ids) for ids in sequences], np.int32)


def _starts(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """The first row of each sentence when sentences of `counts` rows are concatenated."""
    return np.cumsum(counts, dtype=np.int64) - counts


@functools.lru_cache(maxsize=8)
def _all_rows(num_rows: int) -> NDArray[np.int32]:
    return np.arange(num_rows, dtype=np.int32)
