"""Incremental decoding with the Transformer (paper 3.1, 6.1): one token per step, keys and values cached."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from allyouneed.inference.projection import FullProjection, Project, Projection, ShortlistProjection
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.model.attention import SelfAttention
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.masks import Positions, padding_mask, sent
from allyouneed.model.ssru import SSRU
from allyouneed.symbols import PADDING, START

_BLOCK_POSITIONS = 32
_PROJECTED_LOGITS = 1 << 22
"""Maximum number of logits in memory at once, unless those of one position are more."""


class Engine:
    """Starts decodings of a model; it shares the model's weights and uses their device and dtype.

    A `shortlist` restricts the target tokens.
    """

    threads = 0
    """Number of threads per matrix product; 0 leaves it to PyTorch."""

    def __init__(self, model: EncoderDecoder, shortlist: Shortlist | None = None) -> None:
        self.model, self._shortlist = model, shortlist
        self.modules: Sequence[nn.Module] = list(model.modules())
        """All modules of the model."""

    @property
    def device(self) -> torch.device:
        """Device of the model's weights."""
        return next(self.model.parameters()).device

    @property
    def max_positions(self) -> int | None:
        """Longest source or target, in tokens, that the model supports; None if there is no limit."""
        config = self.model.config
        return config.max_positions if config.positions == "learned" else None

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding with `beam_size` hypotheses per sentence."""
        assert isinstance(self.model, Transformer)  # other architectures have their own engines
        return TransformerDecoding(self.model, self.projection(), beam_size)

    def projection(self) -> Projection:
        """Make the output projection of a decoding."""
        if self._shortlist is None:
            return FullProjection(self.model.project)
        return ShortlistProjection(self._shortlist, self._pack_tokens, self.device)

    def _pack_tokens(self, ids: Int[Tensor, " columns"]) -> Project:
        """Make the projection to the given tokens."""
        weight, bias = self.model.embeddings.output_rows(ids)
        return partial(functional.linear, weight=weight, bias=bias)

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float[Tensor, " target_tokens"]:
        """Log-probability of each target token, with all targets concatenated.

        Sources and targets have end symbols.
        """
        expected = pad(targets, self.device)
        read = functional.pad(expected[:, :-1], (1, 0), value=START)
        wanted = expected != PADDING
        hidden = self.model(pad(sources, self.device), read)[wanted]  # (target_tokens, d_model)
        size = self.model.config.target_vocab_size
        return log_probs_of(expected[wanted], hidden, self.model.project, size)


class TokenKeysValues:
    """The keys and values of all tokens that a self-attention has read."""

    def __init__(self, attention: SelfAttention) -> None:
        self._attention, self._keys, self._values = attention, _Store(), _Store()

    def read(
        self,
        x: Float[Tensor, "sentences beams d_model"],
        entries: Int[Tensor, "sentences beams"],
        ancestry: Bool[Tensor, "sentences beams entries"],
        positions: Positions,
    ) -> Float[Tensor, "sentences beams d_model"]:
        """Store one more token of each hypothesis; return what it attends to."""
        query, key, value = self._attention.project(x, positions.query)
        keys = self._keys.write(entries, key, ancestry.size(2))
        values = self._values.write(entries, value, ancestry.size(2))
        attended = self._attention.plain(query, keys, values, ancestry[:, None], positions)
        return self._attention.join(attended)

    def admit(self, num_sentences: int) -> None:
        """Make room for more sentences."""
        self._keys.admit(num_sentences)
        self._values.admit(num_sentences)

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Do nothing: the ancestry tells the entries of each hypothesis."""

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences and their first `num_entries` entries."""
        self._keys.keep(sentences, num_entries)
        self._values.keep(sentences, num_entries)


class Cells:
    """The cells (sentences, beams, d_model) of a recurrent unit."""

    def __init__(self, unit: SSRU, beam_size: int) -> None:
        weight = unit.forget.weight
        self._unit = unit
        dtype = torch.promote_types(weight.dtype, torch.float32)
        self._cells = torch.zeros(0, beam_size, weight.size(0), dtype=dtype, device=weight.device)

    def read(self, x: Float[Tensor, "sentences beams d_model"], *_: object) -> Tensor:
        """Read one more token of each hypothesis; return the unit's outputs."""
        output, self._cells = self._unit.step(x, self._cells)
        return output

    def admit(self, num_sentences: int) -> None:
        """Add sentences of which nothing has been read."""
        self._cells = functional.pad(self._cells, (0, 0, 0, 0, 0, num_sentences))

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Give each hypothesis the cells of its parent."""
        self._cells = self._cells.gather(1, parents[:, :, None].expand_as(self._cells))

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences."""
        self._cells = self._cells[sentences]


class _Store:
    """Keys or values (sentences, heads, entries, width); unused entries are zero."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None
        self._num_sentences = 0

    def admit(self, num_sentences: int) -> None:
        """Make room for more sentences."""
        self._num_sentences += num_sentences
        if self._memory is not None:
            self._memory = functional.pad(self._memory, (0, 0, 0, 0, 0, 0, 0, num_sentences))

    def write(
        self,
        entries: Int[Tensor, "sentences beams"],
        new: Float[Tensor, "sentences heads beams width"],
        num_entries: int,
    ) -> Tensor:
        """Write `new` to these entries; return all `num_entries` entries."""
        _, heads, _, width = new.shape
        if self._memory is None:
            self._memory = new.new_zeros(self._num_sentences, heads, num_entries, width)
        if more := num_entries - self._memory.size(2):
            self._memory = functional.pad(self._memory, (0, 0, 0, more))
        return self._memory.scatter_(2, entries[:, None, :, None].expand_as(new), new)

    def keep(self, sentences: Int[Tensor, " kept"], num_entries: int) -> None:
        """Keep only these sentences and their first `num_entries` entries."""
        self._num_sentences = len(sentences)
        if self._memory is not None:
            self._memory = self._memory[sentences, :, :num_entries]


class TransformerDecoding:
    """Sentences being written, `beam_size` hypotheses each; a `search.Decoding`.

    The hypotheses of a sentence occupy the axis of target positions. They share the keys and values of the
    memory and one store for the keys and values of all tokens read so far. Reordering hypotheses moves no
    entry of the store: `ancestry` marks the entries of each hypothesis. With restricted self-attention, new
    entries overwrite those out of reach.
    """

    def __init__(self, model: Transformer, projection: Projection, beam_size: int) -> None:
        self._model, self._projection = model, projection
        self._layers = cast("list[DecoderLayer]", list(model.decoder))
        self._device = model.embeddings.matrix("target").device
        reach = model.config.reach(causal=True)
        self._kept = None if reach is None else reach.before + 1
        self._source_mask = torch.empty(0, 1, 1, 0, dtype=torch.bool, device=self._device)
        self._memory: list[list[Tensor]] = []
        self._written = [
            Cells(layer.self_attention, beam_size)
            if isinstance(layer.self_attention, SSRU)
            else TokenKeysValues(layer.self_attention)
            for layer in self._layers
        ]
        self._positions = torch.empty(0, dtype=torch.int64)
        self._ancestry = torch.empty(0, beam_size, 0, dtype=torch.bool, device=self._device)

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._projection.admit(sources)
        different, places = distinct(sources)
        source = self._model.read_of(pad(different, self._device))
        memory = self._model.encode(source)[places]
        source = source[places]
        # Contiguous, as views of the packed projection would be copied in every step.
        new = [
            [part.contiguous() for part in layer.cross_attention.project_memory(memory)]
            for layer in self._layers
        ]
        if self._memory:
            new = [
                [_stack(part, more, dim=2) for part, more in zip(parts, mores, strict=True)]
                for parts, mores in zip(self._memory, new, strict=True)
            ]
        self._memory = new
        self._source_mask = _stack(self._source_mask, padding_mask(source), dim=3)
        self._positions = functional.pad(self._positions, (0, len(sources)))
        self._ancestry = functional.pad(self._ancestry, (0, 0, 0, 0, 0, len(sources)))
        for written in self._written:
            written.admit(len(sources))

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; return the logits of the next token."""
        entries = self._new_entries()
        encodings = self._model.target_positions(int(self._positions.max()) + 1)
        embedded = self._model.embeddings.embed("target", sent(tokens, self._device))
        x = embedded + encodings[sent(self._positions, self._device), None]
        positions = self._places()
        for layer, written, memory in zip(self._layers, self._written, self._memory, strict=True):
            x = self._layer_step(layer, x, entries, written, memory, positions)
        self._positions += 1
        return self._projection(self._model.decoder_norm(x))

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        parents = sent(parents, self._device)
        self._ancestry = self._ancestry.gather(1, parents[:, :, None].expand_as(self._ancestry))
        for written in self._written:
            written.reorder(parents)

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        self._projection.keep(sentences)
        self._positions = self._positions[sentences]
        sentences = sentences.to(self._device)
        mask = self._source_mask[sentences]
        longest_source = int(mask.sum(dim=3).max()) if len(sentences) else 0
        longest = int(self._positions.max()) if len(sentences) else 0
        num_entries = self._num_entries(longest)
        self._source_mask = mask[..., :longest_source]
        self._ancestry = self._ancestry[sentences, :, :num_entries]
        self._memory = [[part[sentences, :, :longest_source] for part in memory] for memory in self._memory]
        for written in self._written:
            written.keep(sentences, num_entries)

    def _new_entries(self) -> Int[Tensor, "sentences beams"]:
        """Assign each hypothesis an entry for this step and mark it in `ancestry`; return the entries."""
        beams, num_entries = self._ancestry.shape[1:]
        needed = self._num_entries(int(self._positions.max()) + 1)
        if needed > num_entries:
            self._ancestry = functional.pad(self._ancestry, (0, needed - num_entries))
        places = self._positions if self._kept is None else self._positions % self._kept
        entries = sent(places[:, None] * beams + torch.arange(beams), self._device)
        if self._kept is not None:  # the overwritten entries are out of reach
            self._ancestry.scatter_(2, entries[:, None].expand(-1, beams, -1), False)
        self._ancestry.scatter_(2, entries[:, :, None], True)
        return entries

    def _places(self) -> Positions:
        """Positions of the tokens being read, and of those whose keys and values are stored.

        An entry that was never written gets a position too; no hypothesis descends from it.
        """
        beams, num_entries = self._ancestry.shape[1:]
        query = sent(self._positions[:, None], self._device)
        key = torch.arange(num_entries, device=self._device)[None] // beams
        if self._kept is not None:  # the last position before the query's that is stored at this place
            key = query - (query - key) % self._kept
        return Positions(query.expand(-1, beams), key)

    def _num_entries(self, num_positions: int) -> int:
        """Number of cache entries per sentence for this many positions, rounded up to blocks."""
        kept = num_positions if self._kept is None else min(num_positions, self._kept)
        return -(-kept // _BLOCK_POSITIONS) * _BLOCK_POSITIONS * self._ancestry.size(1)

    def _layer_step(
        self,
        layer: DecoderLayer,
        x: Float[Tensor, "sentences beams d_model"],
        entries: Int[Tensor, "sentences beams"],
        written: TokenKeysValues | Cells,
        memory: list[Tensor],
        positions: Positions,
    ) -> Float[Tensor, "sentences beams d_model"]:
        """Compute one layer with the stored keys and values."""

        def attend_to_written(x: Tensor) -> Tensor:
            return written.read(x, entries, self._ancestry, positions)

        def attend_to_memory(x: Tensor) -> Tensor:
            attention = layer.cross_attention
            query = attention.project_query(x)
            return attention.join(attention.plain(query, *memory, self._source_mask))

        return layer.forward_with(x, attend_to_written, attend_to_memory)


def log_probs_of(
    tokens: Int[Tensor, " tokens"],
    hidden: Float[Tensor, "tokens d_model"],
    project: Callable[[Tensor], Tensor],
    vocab_size: int,
) -> Float[Tensor, " tokens"]:
    """Log-probability of each token, given its hidden state and the projection to `vocab_size` logits."""
    chunks, at_once = [], max(1, _PROJECTED_LOGITS // vocab_size)
    for rows, ids in zip(*(torch.split(x, at_once) for x in (hidden, tokens)), strict=True):
        log_probs = project(rows).log_softmax(dim=-1, dtype=torch.float32)
        chunks.append(log_probs.gather(1, ids[:, None])[:, 0])
    return torch.cat(chunks)


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "batch length"]:
    """Stack token ids into one batch, padded at the end."""
    rows = [torch.tensor(ids, dtype=torch.int64) for ids in sequences]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING).to(device)


def distinct(sources: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], Int[Tensor, " sources"]]:
    """The distinct sources, and the index of each source among them; samples share a source."""
    places: dict[tuple[int, ...], int] = {}
    of_each = [places.setdefault(tuple(source), len(places)) for source in sources]
    return list(places), torch.tensor(of_each)


def _stack(rows: Tensor, more: Tensor, dim: int) -> Tensor:
    """Join two batches, padded to the same length along `dim`."""
    length = max(rows.size(dim), more.size(dim))
    after = [0, 0] * (rows.dim() - 1 - dim)
    return torch.cat([functional.pad(part, (*after, 0, length - part.size(dim))) for part in (rows, more)])
