"""The fastest Transformer decoder for a CPU: packed weights, no padding, no reordering of keys and values.

It computes the same function as `model`. Each row of a product is computed independently of the others, so a
sentence has the same bits in any batch and with any number of threads.
"""

import functools
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.inference.engine import Engine, distinct, log_probs_of
from allyouneed.inference.native_layers import pack_layer, pack_linear
from allyouneed.inference.projection import FullProjection, Projection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates
from allyouneed.inference.shortlist import Shortlist
from allyouneed.model import Transformer
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.native.kernels import Rows
from allyouneed.native.linear import InPlaceLinear, PackedLinear
from allyouneed.symbols import START

_FIRST_POSITIONS = 32
_GROUP = 8
"""Number of neighbouring positions whose attention is computed together."""


class NativeEngine(Engine):
    """Packs a model's weights once and starts decodings with them.

    Args:
        model: A float32 model on the CPU.
        form: Precision of the matrix products.
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
        self.encoder = [pack_layer(cast("EncoderLayer", layer), form, threads) for layer in model.encoder]
        decoder = [cast("DecoderLayer", layer) for layer in model.decoder]
        self.decoder = [pack_layer(layer, form, threads) for layer in decoder]
        self.cross_key_values = [
            pack_linear(layer.cross_attention.key_value, form, threads) for layer in decoder
        ]

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
        matrix = self.model.embeddings.matrix("output")[ids]
        return PackedLinear(matrix, None, self.form, num_threads=self.threads)

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float[Tensor, " target_tokens"]:
        """Log-probability of each target token, as from `Engine`, but with the same bits in any batch."""
        memory = self.encode(sources)
        source_counts = torch.tensor([len(ids) for ids in sources], dtype=torch.int32)
        counts = torch.tensor([len(ids) for ids in targets])
        starts = _starts(counts).repeat_interleave(counts)
        positions = torch.arange(len(starts)) - starts
        past = Rows(_all_rows(len(starts)), starts, positions.int() + 1, _GROUP)
        of_memory = _of_sentences(len(memory), _starts(source_counts), source_counts, counts, _GROUP)
        read = torch.tensor([token for ids in targets for token in (START, *ids[:-1])])
        x = self.model.embeddings.embed("target", read[None])[0]
        x = x + self.model.target_positions(int(counts.max()))[positions]
        keys_values = self.room(len(x))
        for layer, cross_key_value in zip(self.decoder, self.cross_key_values, strict=True):
            x = layer(x, keys_values, 0, past, cross_key_value(memory), of_memory)
        return log_probs_of(torch.tensor([token for ids in targets for token in ids]), x, self.project)

    def encode(self, sources: Sequence[Sequence[int]]) -> Float[Tensor, "source_tokens d_model"]:
        """Encode the sources; return their memories, concatenated."""
        counts = torch.tensor([len(ids) for ids in sources], dtype=torch.int32)
        ids = torch.tensor([token for source in sources for token in source])
        positions = self.model.source_positions(int(counts.max()))
        x = self.model.embeddings.embed("source", ids[None])[0]
        x = x + torch.cat([positions[:count] for count in counts.tolist()])
        own = _of_sentences(len(ids), _starts(counts), counts, counts, _GROUP)
        keys_values = self.room(len(x))
        for layer in self.encoder:
            x = layer(x, keys_values, 0, own)
        return x

    def room(self, num_rows: int) -> Float[Tensor, "{num_rows} keys_values"]:
        """Allocate the keys and values of one layer."""
        return torch.empty(num_rows, self.decoder[0].keys_values_width)


class NativeDecoding:
    """Sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    Keys and values stay in the row where they were written. `ancestry` (sentences, beams, positions) gives
    the rows of each hypothesis.
    """

    def __init__(self, engine: NativeEngine, beam_size: int) -> None:
        self._engine, self._projection = engine, engine.projection()
        self._memory, self._written = (_KeysValues(engine) for _ in range(2))
        self._starts = torch.empty(0, dtype=torch.int64)
        self._counts = torch.empty(0, dtype=torch.int32)
        self._positions = torch.empty(0, dtype=torch.int32)
        self._ancestry = torch.empty(0, beam_size, _FIRST_POSITIONS, dtype=torch.int32)
        self._sources = self._rows_of_sources()

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._forget()
        self._projection.admit(sources)
        different, places = distinct(sources)
        memory = self._engine.encode(different)
        counts = torch.tensor([len(ids) for ids in different], dtype=torch.int32)
        first = self._memory.reserve(len(memory))
        for table, cross_key_value in zip(self._memory.tables, self._engine.cross_key_values, strict=True):
            table[first : first + len(memory)] = cross_key_value(memory)
        self._starts = torch.cat([self._starts, (first + _starts(counts))[places]])
        self._counts = torch.cat([self._counts, counts[places]])
        self._positions = functional.pad(self._positions, (0, len(sources)))
        self._ancestry = functional.pad(self._ancestry, (0, 0, 0, 0, 0, len(sources)))
        self._sources = self._rows_of_sources()

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; return the logits of the next token."""
        engine, beam_size = self._engine, tokens.size(1)
        first = self._written.reserve(tokens.numel())
        past = self._past(first, beam_size)
        encodings: Tensor = engine.model.target_positions(int(self._positions.max()) + 1)
        x = engine.model.embeddings.embed("target", tokens) + encodings[self._positions, None]
        x = x.flatten(0, 1)
        for layer, written, memory in zip(
            engine.decoder, self._written.tables, self._memory.tables, strict=True
        ):
            x = layer(x, written, first, past, memory, self._sources)
        self._positions += 1
        return self._projection(x.view(*tokens.shape, -1))

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        self._ancestry = self._ancestry.gather(1, parents[:, :, None].expand_as(self._ancestry))

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences of the batch, without moving keys and values."""
        self._projection.keep(sentences)
        self._starts, self._counts = self._starts[sentences], self._counts[sentences]
        self._positions = self._positions[sentences]
        longest = int(self._positions.max()) if len(sentences) else 0
        self._ancestry = self._ancestry[sentences, :, : max(longest, _FIRST_POSITIONS)]
        self._sources = self._rows_of_sources()

    def _rows_of_sources(self) -> Rows:
        """The rows of the memory that each hypothesis attends to."""
        beam_size = self._ancestry.size(1)
        return _of_sentences(self._memory.num_rows, self._starts, self._counts, beam_size, beam_size)

    def _past(self, first: int, beam_size: int) -> Rows:
        """Assign every hypothesis a row, from `first` on; return the rows that each attends to."""
        capacity = self._ancestry.size(2)
        if int(self._positions.max()) == capacity:
            self._ancestry = functional.pad(self._ancestry, (0, capacity))
            capacity *= 2
        num_hypotheses = len(self._positions) * beam_size
        own = torch.arange(first, first + num_hypotheses, dtype=torch.int32).view(-1, beam_size)
        self._ancestry[torch.arange(len(own)), :, self._positions] = own
        starts = torch.arange(0, num_hypotheses * capacity, capacity)
        return Rows(self._ancestry, starts, (self._positions + 1).repeat_interleave(beam_size), beam_size)

    def _forget(self) -> None:
        """Drop the rows of departed sentences once they are more than half of all rows."""
        if self._memory.num_rows > 2 * int(self._counts.sum()):
            counts = self._counts.long()
            starts = _starts(counts)
            within = torch.arange(int(counts.sum())) - starts.repeat_interleave(counts)
            self._memory.keep(self._starts.repeat_interleave(counts) + within)
            self._starts = starts
        if self._written.num_rows > 2 * int(self._positions.sum()) * self._ancestry.size(1):
            unused = torch.arange(self._ancestry.size(2)) >= self._positions[:, None, None]
            used, places = self._ancestry.masked_fill(unused, 0).unique(return_inverse=True)
            self._written.keep(used.long())
            self._ancestry = places.int()


class _KeysValues:
    """Keys and values of every decoder layer, in tables that double when full."""

    def __init__(self, engine: NativeEngine) -> None:
        self._room = engine.room
        self.tables = [engine.room(0) for _ in engine.decoder]
        self.num_rows = 0

    def reserve(self, num_rows: int) -> int:
        """Make room for more rows; return the index of the first."""
        first, self.num_rows = self.num_rows, self.num_rows + num_rows
        if self.num_rows > len(self.tables[0]):
            for number, table in enumerate(self.tables):  # in turn: only one table is doubled at a time
                grown = self._room(max(self.num_rows, 2 * len(table)))
                grown[:first] = table[:first]
                self.tables[number] = grown
        return first

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Move these rows to the beginning and drop the others."""
        self.num_rows = len(rows)
        for table in self.tables:
            table[: len(rows)] = table[rows]


def _of_sentences(
    num_rows: int,
    starts: Int[Tensor, " sentences"],
    counts: Int[Tensor, " sentences"],
    num_queries: int | Tensor,
    group: int,
) -> Rows:
    """The rows of each query's sentence, out of `num_rows`, with `num_queries` queries per sentence."""
    return Rows(
        _all_rows(num_rows),
        starts.repeat_interleave(num_queries),
        counts.repeat_interleave(num_queries),
        group,
    )


def _starts(counts: Int[Tensor, " sentences"]) -> Int[Tensor, " sentences"]:
    """The first row of each sentence when sentences of `counts` rows are concatenated."""
    return counts.cumsum(0) - counts


@functools.lru_cache(maxsize=8)
def _all_rows(num_rows: int) -> Int[Tensor, " rows"]:
    return torch.arange(num_rows, dtype=torch.int32)
