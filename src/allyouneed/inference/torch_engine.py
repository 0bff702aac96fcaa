"""Incremental decoding with PyTorch (paper 3.1, 6.1): one token per step, keys and values cached."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from allyouneed.data.vectors import Vectors
from allyouneed.hardware.devices import PYTORCH_THREADS, widest_float
from allyouneed.hardware.memory import total_memory_bytes
from allyouneed.inference.beams import Beams, SearchRules
from allyouneed.inference.captured_steps import RepeatedStep
from allyouneed.inference.decoder_caches import Cells, TokenKeysValues, attention_form
from allyouneed.inference.engine import BATCH_TOKENS, SHORT_SOURCE, Engine, batch_tokens_within, distinct
from allyouneed.inference.projection import FullProjection, Project, ShortlistProjection
from allyouneed.inference.search import STEPS_BETWEEN_LOOKS, Decoding
from allyouneed.inference.selection import Candidates
from allyouneed.inference.tensor_beams import TensorBeams
from allyouneed.inference.torch_selection import TensorDecoding, most_probable
from allyouneed.inference.vocabulary_shortlist import Shortlist
from allyouneed.model.architectures import outline_model
from allyouneed.model.dropout import evaluation_mode
from allyouneed.model.encoder_decoder import EncoderDecoder
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.masks import Positions, padding_mask, sent
from allyouneed.model.sizes import source_positions
from allyouneed.model.ssru import SSRU
from allyouneed.model.transformer import Transformer
from allyouneed.symbols import PADDING, START

_BLOCK_POSITIONS = 32
_PROJECTED_LOGITS = 1 << 22
"""Maximum number of logits in memory at once on a CPU, unless those of one position are more."""
_PROJECTED_LOGITS_OF_ACCELERATOR = 1 << 27
"""The same on an accelerator, which needs more rows to be busy."""


class TorchEngine(Engine):
    """Starts decodings of a model; it shares the model's weights and uses their device and dtype.

    A `shortlist` restricts the target tokens. If `resident`, whole steps of beam search are done where the
    weights are, without the host; by default on devices other than the CPU that have float64.
    """

    threads = 0
    """Number of PyTorch's threads while it decodes; 0 leaves it to PyTorch."""

    def __init__(
        self, model: EncoderDecoder, shortlist: Shortlist | None = None, *, resident: bool | None = None
    ) -> None:
        self.model, self.config, self._shortlist, self._resident = model, model.config, shortlist, resident
        self.has_shortlist, self._modules = shortlist is not None, list(model.modules())

    @property
    def models(self) -> Sequence[EncoderDecoder]:
        """The model."""
        return [self.model]

    @property
    def device(self) -> torch.device:
        """Device of the model's weights."""
        return next(self.model.parameters()).device

    @cached_property
    def batch_tokens(self) -> int:
        """Source tokens computed at once, times the beam size: those for which the device has the memory."""
        if self.device.type == "cpu":
            return BATCH_TOKENS
        item_bytes = self.model.embeddings.matrix("output").element_size()
        return batch_tokens_within(total_memory_bytes(self.device), self.config, item_bytes)

    @property
    def shortest_source(self) -> int:
        """Number of tokens that each source counts for, at least, in batches of `batch_tokens`."""
        return 1 if self.device.type == "cpu" else SHORT_SOURCE

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Disable dropout, and limit PyTorch to the number of threads."""
        with evaluation_mode(self._modules), PYTORCH_THREADS.limited_to(self.threads):
            yield

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding with `beam_size` hypotheses per sentence."""
        assert isinstance(self.model, Transformer)  # other architectures have their own engines
        resident = self._resident
        if resident is None:
            resident = self.device.type != "cpu" and widest_float(self.device) == torch.float64
        return TransformerDecoding(self.model, self.projection(), beam_size, resident=resident)

    def projection(self) -> FullProjection:
        """Make the output projection of a decoding."""
        if self._shortlist is None:
            return FullProjection(self.model.project)
        return TorchShortlistProjection(self._shortlist, self._rows_of)

    def _rows_of(self, ids: NDArray[np.int64]) -> Project:
        """The projection to the given tokens."""
        weight, bias = self.model.embeddings.output_rows(torch.from_numpy(ids).to(self.device))
        return partial(functional.linear, weight=weight, bias=bias)

    @torch.inference_mode()
    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float32[np.ndarray, " target_tokens"]:
        """Log-probability of each target token, as `Engine.token_log_probs`."""
        expected = pad(targets, self.device)
        read = functional.pad(expected[:, :-1], (1, 0), value=START)
        wanted = expected != PADDING
        hidden = self.model(pad(sources, self.device), read)[wanted]  # (target_tokens, d_model)
        most = _PROJECTED_LOGITS if self.device.type == "cpu" else _PROJECTED_LOGITS_OF_ACCELERATOR
        chunks, at_once = [], max(1, most // self.config.target_vocab_size)
        for rows, ids in zip(*(torch.split(x, at_once) for x in (hidden, expected[wanted])), strict=True):
            log_probs = self.model.project(rows).log_softmax(dim=-1, dtype=torch.float32)
            chunks.append(log_probs.gather(1, ids[:, None])[:, 0])
        return torch.cat(chunks).cpu().numpy()


class TorchShortlistProjection(ShortlistProjection):
    """The projection to shortlists on the device of the hidden states."""

    def _own(self, logits: list[Any]) -> Tensor:
        joined = torch.cat(logits, dim=-1)
        columns, absent = (
            torch.from_numpy(array).to(joined.device)[:, None] for array in (self._columns, self._absent)
        )
        own = joined.gather(2, columns.expand(-1, joined.size(1), -1))
        return own.masked_fill_(absent, float("-inf"))


class TransformerDecoding(TensorDecoding):
    """Sentences being written, `beam_size` hypotheses each.

    The hypotheses of a sentence occupy the axis of target positions. They share the keys and values of the
    memory and one store for the keys and values of all tokens read so far. Reordering hypotheses moves no
    entry of the store: `ancestry` marks the entries of each hypothesis. With restricted self-attention, new
    entries overwrite those out of reach.

    Between two calls of `admit`, `keep` or `_make_room` that change a shape, all tensors keep their places,
    so that a step on the device can be captured.
    """

    def __init__(
        self, model: Transformer, projection: FullProjection, beam_size: int, *, resident: bool = False
    ) -> None:
        self._model, self._projection = model, projection
        self.is_resident = resident and not isinstance(projection, ShortlistProjection)
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
        self._source_lengths = torch.empty(0, dtype=torch.int64)
        self._ancestry = torch.empty(0, beam_size, 0, dtype=torch.bool, device=self._device)
        self._encodings = torch.empty(0)
        self._beams_on_device: TensorBeams | None = None
        """None whenever a tensor of the step has changed its place."""
        # Experts wait for the host, to learn which of them are in use.
        is_fixed = model.config.feed_forward != "experts"
        self._repeated = RepeatedStep(self._device, captured=is_fixed)

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences."""
        if not sources:
            return
        self._beams_on_device = None
        self._projection.admit(sources)
        different, places = distinct(sources)
        of_each = sent(torch.tensor(places), self._device)
        source = self._model.read_of(pad(different, self._device))
        memory = self._model.encode(source)[of_each]
        source = source[of_each]
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
        self._source_lengths = torch.cat([self._source_lengths, self._lengths_of(sources)])
        self._ancestry = functional.pad(self._ancestry, (0, 0, 0, 0, 0, len(sources)))
        for written in self._written:
            written.admit(len(sources))

    @torch.inference_mode()
    def logits(self, tokens: Int64[np.ndarray, "sentences beams"]) -> Any:
        """Append a token to every hypothesis; return the logits of the next token."""
        self._make_room(int(self._positions.max()) + 1)
        logits = self._read(
            *(sent(each, self._device) for each in (torch.from_numpy(tokens), self._positions))
        )
        self._positions += 1
        return logits

    @torch.inference_mode()
    def search_on_device(self, beams: Beams, rules: SearchRules, num_steps: int) -> NDArray[np.bool_]:
        """Do whole steps of beam search on the device; see `Decoding`."""
        last = np.minimum(beams.lengths + num_steps, beams.max_lengths).max()
        self._make_room(int(last))
        if self._beams_on_device is None or self._beams_on_device.rules is not rules:
            self._beams_on_device = TensorBeams(beams, rules, STEPS_BETWEEN_LOOKS, self._device)
            self._repeated.take(partial(self._extend, self._beams_on_device))
        self._beams_on_device.load(beams)
        for _ in range(num_steps):
            self._repeated()
        done = self._beams_on_device.give_back(beams, num_steps)
        self._positions = torch.from_numpy(beams.lengths.copy())
        return done

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return self._projection.candidates

    @torch.inference_mode()
    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        self._reorder(sent(torch.from_numpy(parents), self._device))

    @torch.inference_mode()
    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        self._beams_on_device = None
        self._projection.keep(sentences)
        self._positions = self._positions[sentences]
        self._source_lengths = self._source_lengths[sentences]
        kept = sent(torch.from_numpy(sentences), self._device)
        longest_source, longest = (
            int(lengths.max()) if len(kept) else 0 for lengths in (self._source_lengths, self._positions)
        )
        num_entries = self._num_entries(longest)
        self._source_mask = self._source_mask[kept, ..., :longest_source]
        self._ancestry = self._ancestry[kept, :, :num_entries]
        self._memory = [[part[kept, :, :longest_source] for part in memory] for memory in self._memory]
        for written in self._written:
            written.keep(kept, num_entries)

    def _lengths_of(self, sources: Sequence[Sequence[int]]) -> Int[Tensor, " sentences"]:
        """Number of positions of the encoder for each source, at least one."""
        config = self._model.config
        left_out = 0 if config.source_end else 1
        return torch.tensor([max(1, source_positions(config, len(source)) - left_out) for source in sources])

    def _make_room(self, num_positions: int) -> None:
        """Make room for tokens at the first `num_positions` positions."""
        if (more := self._num_entries(num_positions) - self._ancestry.size(2)) > 0:
            self._ancestry = functional.pad(self._ancestry, (0, more))
            self._beams_on_device = None
        if num_positions > len(self._encodings):
            self._encodings = self._model.target_positions(self._num_encoded(num_positions))
            self._beams_on_device = None

    def _num_encoded(self, num_positions: int) -> int:
        """Number of positions, rounded up to blocks, but not beyond the last learned one."""
        config, blocks = self._model.config, -(-num_positions // _BLOCK_POSITIONS) * _BLOCK_POSITIONS
        if config.positions != "learned":
            return blocks
        return max(num_positions, min(blocks, config.max_positions))

    def _extend(self, beams: TensorBeams) -> None:
        """Do a step of beam search on the device."""
        logits = self._read(beams.last_tokens, beams.positions())
        k = min(beams.rules.num_candidates, logits.size(-1))
        self._reorder(beams.advance(*most_probable(logits, k, beams.cannot_end())))

    def _read(
        self, tokens: Int[Tensor, "sentences beams"], positions: Int[Tensor, " sentences"]
    ) -> Float[Tensor, "sentences beams columns"]:
        """Read a token of every hypothesis, at these positions; return the logits of the next token."""
        entries, at = self._new_entries(positions), self._places(positions)
        x = self._model.embeddings.embed("target", tokens) + self._encodings[positions, None]
        for layer, written, memory in zip(self._layers, self._written, self._memory, strict=True):
            x = self._layer_step(layer, x, entries, self._ancestry, written, memory, at)
        logits: Tensor = self._projection(self._model.decoder_norm(x))
        return logits

    def _reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        self._ancestry.copy_(self._ancestry.gather(1, parents[:, :, None].expand_as(self._ancestry)))
        for written in self._written:
            written.reorder(parents)

    def _new_entries(self, positions: Int[Tensor, " sentences"]) -> Int[Tensor, "sentences beams"]:
        """Assign each hypothesis an entry for this step and mark it in `ancestry`; return the entries."""
        beams = self._ancestry.size(1)
        places = positions if self._kept is None else positions % self._kept
        entries = places[:, None] * beams + torch.arange(beams, device=self._device)
        if self._kept is not None:  # the overwritten entries are out of reach
            self._ancestry.scatter_(2, entries[:, None].expand(-1, beams, -1), False)
        self._ancestry.scatter_(2, entries[:, :, None], True)
        return entries

    def _places(self, positions: Int[Tensor, " sentences"]) -> Positions:
        """Positions of the tokens being read, and of those whose keys and values are stored.

        An entry that was never written gets a position too; no hypothesis descends from it.
        """
        beams, num_entries = self._ancestry.shape[1:]
        query = positions[:, None]
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
        ancestry: Bool[Tensor, "sentences beams entries"],
        written: TokenKeysValues | Cells,
        memory: list[Tensor],
        positions: Positions,
    ) -> Float[Tensor, "sentences beams d_model"]:
        """Compute one layer with the stored keys and values."""

        def attend_to_written(x: Tensor) -> Tensor:
            return written.read(x, entries, ancestry, positions)

        def attend_to_memory(x: Tensor) -> Tensor:
            attention, (key, value) = layer.cross_attention, memory
            query = attention.project_query(x)
            return attention.join(attention_form(attention)(query, key, value, self._source_mask, None))

        return layer.forward_with(x, attend_to_written, attend_to_memory)


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Stack token ids (batch, length), or vectors (batch, length, features), padded at the end."""
    vectors = [torch.tensor(each.values) for each in sequences if isinstance(each, Vectors)]
    rows = vectors or [torch.tensor(ids, dtype=torch.int64) for ids in sequences]
    padding = torch.nan if vectors else PADDING
    return sent(pad_sequence(rows, batch_first=True, padding_value=padding), device)


def _stack(rows: Tensor, more: Tensor, dim: int) -> Tensor:
    """Join two batches, padded to the same length along `dim`."""
    length = max(rows.size(dim), more.size(dim))
    after = [0, 0] * (rows.dim() - 1 - dim)
    return torch.cat([functional.pad(part, (*after, 0, length - part.size(dim))) for part in (rows, more)])


def unknown_module(model: EncoderDecoder) -> str | None:
    """The type of a module that models of this configuration do not have; None if there is none."""
    known = {type(module) for module in outline_model(model.config).modules()}
    return next((type(module).__name__ for module in model.modules() if type(module) not in known), None)
