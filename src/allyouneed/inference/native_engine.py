"""The fastest Transformer decoder for a CPU: packed weights, no padding, no reordering of keys and values.

It computes the same function as `model`. Each row of a product is computed independently of the others, so a
sentence has the same bits in any batch and with any number of threads.
"""

import functools
import math
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.engine import BATCH_TOKENS, Engine, distinct
from allyouneed.inference.native_layers import Packer, roughest
from allyouneed.inference.projection import FullProjection, ShortlistProjection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates, log_softmax
from allyouneed.inference.stored_model import Model, StoredModel
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model.sizes import count_parameters
from allyouneed.native.arrays import Float32, Int32, Int64
from allyouneed.native.attention_kernels import KeysValues, Rows
from allyouneed.native.beam_kernels import NativeBeams
from allyouneed.native.decoding import Hypotheses, RowNumbers
from allyouneed.native.linear import InPlaceLinear, PackedLinear
from allyouneed.native.stack import Tables
from allyouneed.symbols import END, NEVER_PRODUCED, START

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder

_NEVER_PRODUCED = np.array(NEVER_PRODUCED, np.int64)
_MOST_ENCODED = 1_024
"""Number of sources whose memories are kept for later."""
_PROJECTED_LOGITS = 1 << 22
"""Maximum number of logits in memory at once, unless those of one position are more."""
_MOST_BATCH_LOGITS = 1 << 28
"""Product of the tokens of a batch and the vocabulary: 8,192 tokens of 32,768 entries."""
_FIRST_POSITIONS = 32
_SMALL_DECODER = 26_000_000
"""Maximum number of weights of a decoder that does several steps in a call, those of the base model."""
_GROUP = 8
"""Number of neighbouring positions whose attention is computed together."""
_STEPS_BEFORE_TIDYING = 32
"""Minimum number of steps between two sortings of the rows."""


class NativeEngine(Engine):
    """Packs a model's weights once and starts decodings with them.

    `form` is the precision of products, keys and values.

    Raises:
        MisfitError: The weights do not fit the architecture, or those of a stored model are not finite.
    """

    def __init__(
        self,
        model: Model,
        form: str = "float32",
        threads: int = 1,
        shortlist: Shortlist | None = None,
    ) -> None:
        stored = model if isinstance(model, StoredModel) else StoredModel.of(model)
        self.config, self.form, self.threads = stored.config, form, threads
        self._model, self._shortlist, self.has_shortlist = stored, shortlist, shortlist is not None
        packer = Packer(stored, form, threads)
        self.encoder, self.decoder = packer.stack("source"), packer.stack("target")
        self.cross_heads = packer.cross_heads
        self._cross_key_values = packer.memory_maps()
        self._source_tables, self.target_tables = packer.positions("source"), packer.positions("target")
        self._output, self._bias = packer.matrix("output"), packer.output_bias()
        self.block_heads = packer.block_heads()
        self.is_quick = count_parameters(self.config)["decoder"] <= _SMALL_DECODER
        packer.require_all_taken()

    @property
    def models(self) -> "Sequence[EncoderDecoder]":
        """The model as PyTorch's module, built when it is asked for."""
        return [self._model.module]

    @property
    def batch_tokens(self) -> int:
        """Source tokens as for `Engine`, or fewer: logits of a large vocabulary would fill the memory."""
        return min(BATCH_TOKENS, max(1, _MOST_BATCH_LOGITS // self.config.target_vocab_size))

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Disable dropout of a module whose weights were packed, as its attention may be looked into."""
        with self._model.evaluated():
            yield

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

    def shortlisted(self) -> FullProjection:
        """Make a decoding's projection to the tokens of its shortlist."""
        assert self._shortlist is not None
        return ShortlistProjection(self._shortlist, self._pack_tokens)

    @cached_property
    def project_roughly(self) -> PackedLinear:
        """The projection to all tokens for proposals, which need not be exact: in int8, if available."""
        form = roughest()
        return self.project if form == self.form else self._pack_tokens(slice(None), form)

    def _pack_tokens(self, ids: NDArray[np.int64] | slice, form: str | None = None) -> PackedLinear:
        bias = None if self._bias is None else self._bias[ids]
        return PackedLinear(self._output[ids], bias, form or self.form, num_threads=self.threads)

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float32[np.ndarray, " target_tokens"]:
        """Log-probability of each target token, as from `Engine`, but with the same bits in any batch."""
        memory = KeysValues(self.cross_heads, self.decoder.num_layers)
        sources = self.read_of(sources)
        self.remember(self.encode(sources), memory)
        source_counts = _lengths(sources)
        hidden = self._decode_given(targets, memory, (_starts(source_counts), source_counts))
        expected = np.array([token for ids in targets for token in ids])
        at_once = max(1, _PROJECTED_LOGITS // self.project.num_outputs)
        return np.concatenate(
            [
                np.take_along_axis(log_softmax(self.project(rows)), ids[:, None], axis=1)[:, 0]
                for rows, ids in (
                    (hidden[first : first + at_once], expected[first : first + at_once])
                    for first in range(0, len(expected), at_once)
                )
            ]
        )

    def _decode_given(
        self,
        targets: Sequence[Sequence[int]],
        memory: KeysValues,
        of_sources: tuple[Int64[np.ndarray, " targets"], Int32[np.ndarray, " targets"]],
        watched: int | None = None,
    ) -> Float32[np.ndarray, "target_tokens width"]:
        """Decode all tokens of given targets, which have end symbols, to what `PackedStack` returns.

        `of_sources` are the first row of each target's source in the memory, and the number of its rows.
        """
        counts = _lengths(targets)
        starts = np.repeat(_starts(counts), counts)
        positions = np.arange(len(starts)) - starts
        past = Rows(_all_rows(len(starts)), starts, (positions + 1).astype(np.int32), _GROUP, positions)
        of_memory = _of_sentences(memory.num_rows, *of_sources, counts)
        read = np.array([token for ids in targets for token in (START, *ids[:-1])])
        keys_values = KeysValues(self.decoder.heads, self.decoder.num_layers, shared=True)
        keys_values.reserve(len(read))
        tables = self.target_tables.covering(int(counts.max()))
        return self.decoder(
            read, positions, tables, keys_values, past, memory=(memory, of_memory), watched=watched
        )

    def source_attention(
        self,
        layer: int,
        heads: slice,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Sequence[int]]],
        known: "EncodedSources | None" = None,
    ) -> list[list[Float32[np.ndarray, "written source_len"]]]:
        """The mean attention of heads of a decoder layer, from 0; an `alignment.AttentionToSource`.

        Sources that are `known` are taken from there, and not encoded again.
        """
        read = self.read_of([[*source, END] for source in sources])
        memory = KeysValues(self.cross_heads, self.decoder.num_layers)
        encoded = np.concatenate(self._encoded(read, known))
        self.remember(encoded, memory, layer)
        num_targets, counts = _lengths(targets), _lengths(read)
        # An output cut at the last learned position has none for the next step, whose row is then zero.
        ended = [[*target, END][: self.max_positions] for each in targets for target in each]
        rows = _starts(counts).repeat(num_targets), counts.repeat(num_targets)
        queries = self._decode_given(ended, memory, rows, layer)
        keys = self._cross_key_values[layer](encoded)
        of_sources = np.split(keys, np.cumsum(counts)[:-1])
        of_targets = iter(np.split(queries, np.cumsum(_lengths(ended))[:-1]))

        def attention(
            source: Sequence[int], own_keys: NDArray[np.float32], target: Sequence[int]
        ) -> NDArray[np.float32]:
            of_heads = self._weights(next(of_targets), own_keys)[heads, :, : len(source)]
            weights = of_heads.mean(axis=0)
            return np.pad(weights, ((0, len(target) + 1 - len(weights)), (0, 0)))

        return [
            [attention(source, own_keys, target) for target in its]
            for source, own_keys, its in zip(sources, of_sources, targets, strict=True)
        ]

    def _encoded(
        self, sources: Sequence[Sequence[int]], known: "EncodedSources | None"
    ) -> list[Float32[np.ndarray, "source_tokens d_model"]]:
        """The memories of sources, taken from those that are known."""
        found = [known.take(source) if known else None for source in sources]
        missing = [source for source, memory in zip(sources, found, strict=True) if memory is None]
        new = iter(self.split(self.encode(missing), missing) if missing else [])
        return [next(new) if memory is None else memory for memory in found]

    @staticmethod
    def split(
        encoded: Float32[np.ndarray, "source_tokens d_model"], sources: Sequence[Sequence[int]]
    ) -> list[Float32[np.ndarray, "source_tokens d_model"]]:
        """Memories that are concatenated, source by source."""
        return np.split(encoded, np.cumsum(_lengths(sources))[:-1])

    def _weights(
        self,
        queries: Float32[np.ndarray, "target_tokens heads_d_k"],
        keys_values: Float32[np.ndarray, "source_tokens heads_width"],
    ) -> Float32[np.ndarray, "heads target_tokens source_tokens"]:
        """The weights of cross-attention to a source (paper 3.2.1), computed with NumPy."""
        num_heads, (d_k, _) = self.config.num_heads, self.config.head_widths
        keys = keys_values[:, : num_heads * d_k]
        of_heads = (each.reshape(-1, num_heads, d_k).swapaxes(0, 1) for each in (queries, keys))
        query, key = of_heads  # (heads, tokens, d_k)
        scores = query @ key.swapaxes(1, 2) / np.float32(math.sqrt(d_k))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        normalised: NDArray[np.float32] = weights / weights.sum(axis=-1, keepdims=True)
        return normalised

    def read_of(self, sources: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """The tokens of sources with end symbols that the encoder reads; see `Transformer.read_of`."""
        return sources if self.config.source_end else [source[:-1] or source for source in sources]

    def remember(
        self,
        encoded: Float32[np.ndarray, "source_tokens d_model"],
        memory: KeysValues,
        num_layers: int | None = None,
    ) -> int:
        """Append the keys and values of encoded sources for the first decoder layers, by default all.

        Returns:
            The first of their rows; the others follow, one per token.
        """
        first = memory.reserve(len(encoded))
        for layer, key_value in enumerate(self._cross_key_values[:num_layers]):
            memory.store(layer, key_value(encoded), first)
        return first

    def encode(self, sources: Sequence[Sequence[int]]) -> Float32[np.ndarray, "source_tokens d_model"]:
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


class EncodedSources:
    """Memories of sources that are searched, until someone takes them; if they become too many, all go."""

    def __init__(self) -> None:
        self._memories: dict[tuple[int, ...], NDArray[np.float32]] = {}

    def add(self, source: Sequence[int], memory: NDArray[np.float32]) -> None:
        """Add the memory of a source."""
        if len(self._memories) >= _MOST_ENCODED:
            self._memories.clear()
        self._memories[tuple(source)] = memory

    def take(self, source: Sequence[int]) -> NDArray[np.float32] | None:
        """The memory of a source, which is removed; None if it is not there."""
        return self._memories.pop(tuple(source), None)


class NativeDecoding(Decoding):
    """Sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    `ancestry` (sentences, beams, positions) gives the rows of each hypothesis.
    """

    def __init__(self, engine: NativeEngine, beam_size: int) -> None:
        self._engine, self._to_all, self.is_quick = engine, engine.projection_to_all(), engine.is_quick
        self._projection = engine.shortlisted() if self._to_all is None else FullProjection(self._to_all)
        num_layers = engine.decoder.num_layers
        self._memory = KeysValues(engine.cross_heads, num_layers)
        self._written = KeysValues(engine.decoder.heads, num_layers)
        self._most_rows = 0
        self._starts = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int32)
        self._positions = np.empty(0, np.int64)
        self._ancestry = np.empty((0, beam_size, _FIRST_POSITIONS), np.int32)
        self.encoded: EncodedSources | None = None
        """Where the memories of sources are kept, too, if they will be needed again."""
        self._arrange()

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._forget_sources()
        self._projection.admit(sources)
        different, places = distinct(self._engine.read_of(sources))
        encoded = self._engine.encode(different)
        first = self._engine.remember(encoded, self._memory)
        if self.encoded is not None:
            for source, memory in zip(different, self._engine.split(encoded, different), strict=True):
                self.encoded.add(source, memory)
        counts, of_each = _lengths(different), np.array(places)
        self._starts = np.concatenate([self._starts, (first + _starts(counts))[of_each]])
        self._counts = np.concatenate([self._counts, counts[of_each]])
        self._positions = np.concatenate([self._positions, np.zeros(len(sources), np.int64)])
        new = np.zeros((len(sources), *self._ancestry.shape[1:]), np.int32)
        self._ancestry = np.concatenate([self._ancestry, new])
        self._arrange()

    def logits(
        self, tokens: Int64[np.ndarray, "sentences beams"]
    ) -> Float32[np.ndarray, "sentences beams vocab"]:
        """Append a token to every hypothesis; return the logits of the next token."""
        logits: NDArray[np.float32] = self._projection(self._with_room().read(tokens, self._tables()))
        return logits

    @property
    def searches(self) -> bool:
        """Whether `search` can be used: not with a shortlist, whose columns differ between sentences."""
        return self._to_all is not None

    def search(
        self, beams: NativeBeams, cannot_end: NDArray[np.bool_] | None, num_steps: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Do whole steps of beam search; see `Decoding`."""
        assert self._to_all is not None
        hypotheses, tables = self._with_room(num_steps), self._tables(num_steps)
        return hypotheses.search(beams, tables, self._to_all, _NEVER_PRODUCED, cannot_end, num_steps)

    def _tables(self, num_steps: int = 1) -> Tables:
        return self._engine.target_tables.covering(self._hypotheses.longest + num_steps)

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        self._hypotheses.reorder(parents)

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch, without moving keys and values."""
        self._projection.keep(sentences)
        self._starts, self._counts = self._starts[sentences], self._counts[sentences]
        self._positions = self._positions[sentences]
        capacity = max(int(self._positions.max(initial=0)), _FIRST_POSITIONS)
        self._ancestry = self._ancestry[sentences, :, :capacity]
        self._arrange()

    def _arrange(self) -> None:
        """Hand over the arrays, which the kernels change in place, until some are replaced."""
        self._ancestry = np.ascontiguousarray(self._ancestry)
        rows = _all_rows(self._memory.num_rows)
        numbers = RowNumbers(self._positions, self._ancestry, rows, self._starts, self._counts)
        self._hypotheses = Hypotheses(self._engine.decoder, self._written, self._memory, numbers)

    def _with_room(self, num_steps: int = 1) -> Hypotheses:
        """The hypotheses, with room for `num_steps` more positions of each."""
        num_sentences, beam_size, _ = self._ancestry.shape
        self._make_room(self._hypotheses.longest + num_steps, num_steps * num_sentences * beam_size)
        return self._hypotheses

    def _make_room(self, num_positions: int, num_new: int) -> None:
        """Make room for hypotheses of so many positions, and for so many new rows."""
        while num_positions > self._ancestry.shape[2]:
            self._ancestry = np.concatenate([self._ancestry, np.zeros_like(self._ancestry)], axis=2)
            self._arrange()
        if self._written.num_rows + num_new > self._most_rows:
            num_kept = self._tidy() if self._written.num_rows else 0
            of_step = self._ancestry.shape[0] * self._ancestry.shape[1]
            self._most_rows = max(2 * num_kept, num_kept + max(num_new, _STEPS_BEFORE_TIDYING * of_step))

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

    def _memory_rows(self, sentences: Int64[np.ndarray, " queries"], group: int) -> Rows:
        """The rows of the sources that queries of these sentences attend to."""
        rows = _all_rows(self._memory.num_rows)
        return Rows(rows, self._starts[sentences], self._counts[sentences], group)

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


def _lengths(sequences: Sequence[Sized]) -> NDArray[np.int32]:
    return np.array([len(ids) for ids in sequences], np.int32)


def _starts(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """The first row of each sentence when sentences of `counts` rows are concatenated."""
    return np.cumsum(counts, dtype=np.int64) - counts


@functools.lru_cache(maxsize=8)
def _all_rows(num_rows: int) -> NDArray[np.int32]:
    return np.arange(num_rows, dtype=np.int32)
