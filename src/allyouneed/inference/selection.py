"""Selection of the most probable next tokens, and its restrictions: lengths, prefixes, repetitions, rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import NOTHING, Beams, SearchRequest
from allyouneed.native import kernels
from allyouneed.native.library import library
from allyouneed.symbols import END, PADDING, SENTINEL, START

NEVER_PRODUCED = (PADDING, START, SENTINEL)
"""Ids that no hypothesis contains. Their probability is not redistributed to the other ids."""

_SPARE = 32
"""How many values beyond k are looked at for ties with the k-th, which are frequent in bfloat16."""


@dataclass(frozen=True)
class Candidates:
    """Maps the columns of logits to tokens when the columns are not the whole vocabulary."""

    ids: Int[Tensor, "sentences columns"]
    """Token ids, ascending, control symbols first; padded at the end, where logits are -inf."""
    vocab_size: int

    def at(self, columns: Int[Tensor, "sentences beams k"]) -> Int[Tensor, "sentences beams k"]:
        """The tokens of these columns."""
        return self.ids[:, None].expand(-1, columns.size(1), -1).gather(2, columns)

    def spread(
        self, logits: Float[Tensor, "sentences beams columns"]
    ) -> Float[Tensor, "sentences beams vocab"]:
        """Spread logits over the whole vocabulary, with -inf for all other tokens."""
        wide = logits.new_full((*logits.shape[:2], self.vocab_size), NOTHING)
        # "amax", as fill columns also carry the padding id and must not overwrite its logit.
        return wide.scatter_reduce_(2, self.ids[:, None].expand_as(logits), logits, "amax")


Restrict = Callable[[Tensor, Tensor], None]
"""Lowers logits (sentences, beams, vocab) in place; their normalisers (sentences, beams) stay."""


@dataclass(frozen=True)
class Restriction:
    """The tokens that a step may not choose."""

    cannot_end: NDArray[np.bool_]
    """(sentences): whether the hypotheses are too short to end."""
    restrict: Restrict | None = None
    """Lowers the logits of tokens that are disallowed for other reasons."""
    forced: Sequence[tuple[int, int]] = ()
    """Sentences with the one token that each must choose, whatever else restricts it."""

    @property
    def is_of_lengths(self) -> bool:
        """Whether `cannot_end` is all that restricts the hypotheses."""
        return self.restrict is None and not self.forced

    def apply(
        self, logits: Float[Tensor, "sentences beams vocab"], normalisers: Float[Tensor, "sentences beams"]
    ) -> None:
        """Lower the logits of disallowed tokens in place."""
        kept = [logits[sentence, :, token].clone() for sentence, token in self.forced]
        if self.restrict is not None:
            self.restrict(logits, normalisers)
        logits[torch.from_numpy(self.cannot_end).to(logits.device), :, END] = NOTHING
        for (sentence, token), values in zip(self.forced, kept, strict=True):
            logits[sentence] = NOTHING
            logits[sentence, :, token] = values


def top_log_probs(
    logits: Float[Tensor, "sentences beams columns"],
    k: int,
    restriction: Restriction | None = None,
    candidates: Candidates | None = None,
) -> tuple[Float[Tensor, "sentences beams k"], Int[Tensor, "sentences beams k"]]:
    """The k most probable tokens of each row, as log-probabilities and ids; logits may be overwritten.

    Ties go to the lower id. A row of fewer than k tokens is returned whole, in that order. `candidates` are
    the tokens of the columns, by default the whole vocabulary.
    """
    k = min(k, logits.size(-1))
    native = logits.device.type == "cpu" and logits.dtype == torch.float32 and library() is not None
    if native and (restriction is None or restriction.is_of_lengths):
        cannot_end = None if restriction is None else restriction.cannot_end.repeat(logits.size(1))
        values, ids = kernels.top_log_probs(logits, k, NEVER_PRODUCED, cannot_end=cannot_end)
        return values, ids if candidates is None else candidates.at(ids)
    logits = logits.float()
    # Of the columns, not of the whole vocabulary: a restriction of other sentences must not change the bits.
    normalisers = normalisers_of(logits)
    if restriction is not None:
        if candidates is not None:
            logits, candidates = candidates.spread(logits), None
        restriction.apply(logits, normalisers)
    if native:
        return kernels.top_log_probs(logits, k, NEVER_PRODUCED, normalisers)
    for token in NEVER_PRODUCED:  # a list of them would have to be copied to the device
        logits[..., token] = NOTHING
    values, ids = stable_top_k(logits, k)
    return values - normalisers[..., None], ids if candidates is None else candidates.at(ids)


def normalisers_of(logits: Float[Tensor, "*rows columns"]) -> Float[Tensor, " *rows"]:
    """Log-sum-exp of each row of contiguous logits; with the kernels, the same bits in any batch."""
    native = logits.device.type == "cpu" and logits.dtype == torch.float32 and library() is not None
    return kernels.log_sum_exp(logits) if native else logits.logsumexp(dim=-1)


def stable_top_k(
    values: Float[Tensor, "*rows width"], k: int
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k largest values of each row and their indices, in descending order; ties go to the lower index.

    A row of fewer than k values is returned whole, in that order.
    """
    width = values.size(-1)
    largest, places = values.topk(most := min(k + _SPARE, width))
    # topk does not define which of equal values it takes, nor their order; they are put in order by place.
    places, order = places.sort(dim=-1)
    largest, order = largest.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    places = places.gather(-1, order)
    # Where the last of them ties with the k-th, topk may have left out others that do, with lower places.
    if most < width and (tied := largest[..., -1] == largest[..., k - 1]).any():
        ordered, order = values[tied].sort(dim=-1, descending=True, stable=True)
        largest[tied], places[tied] = ordered[..., :most], order[..., :most]
    return largest[..., :k], places[..., :k]


class Constraint(Protocol):
    """Output rules of a task, such as "trees are well formed". Scores are not renormalised.

    The states of all hypotheses are one integer array (sentences, beams, width), so that every method is
    vectorised. New sentences may have a different width; the narrower array is padded with zeros.
    """

    table: NDArray[np.bool_]
    """(classes, vocab): the tokens allowed next in each class of states."""

    def start(self, sources: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """States of empty outputs (sentences, width); sources include their end symbols."""

    def classify(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Class of each state (sentences, beams)."""

    def advance(self, states: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """States after appending `tokens` (sentences, beams)."""


class Restrictions:
    """Restricts the search of a batch that sentences join and leave."""

    def __init__(self, config: SearchConfig, constraint: Constraint | None = None) -> None:
        self._config, self._constraint = config, constraint
        self._prefixes: list[Sequence[int]] = []
        self._states = np.empty(0, np.int64)
        self._table = None if constraint is None else torch.from_numpy(constraint.table)

    def admit(self, sentences: Sequence[SearchRequest]) -> None:
        """Add sentences."""
        self._prefixes += [sentence.prefix for sentence in sentences]
        if self._constraint is not None and sentences:
            new = self._constraint.start([sentence.source for sentence in sentences])[:, None]
            new = np.repeat(new, self._config.beam_size, axis=1)
            self._states = _below(self._states, new) if len(self._states) else new

    def keep(self, sentences: NDArray[np.int64]) -> None:
        """Keep only these sentences."""
        self._prefixes = [self._prefixes[sentence] for sentence in sentences]
        if self._constraint is not None:
            self._states = self._states[sentences]

    def advance(self, parents: NDArray[np.int64], beams: Beams) -> None:
        """Extend the hypotheses `parents` (sentences, beams) with the last tokens of `beams`."""
        if self._constraint is not None:
            states = self._states[np.arange(len(parents))[:, None], parents]
            self._states = self._constraint.advance(states, beams.last_tokens())

    def of(self, beams: Beams) -> Restriction | None:
        """The tokens that are not allowed next; None if all are."""
        forbids_repetition = self._config.no_repeat_ngram_size or self._config.repetition_penalty != 1
        restricts = forbids_repetition or self._constraint is not None
        has_prefixes = any(self._prefixes)
        if not (restricts or has_prefixes or self._config.min_length > 1):
            return None
        lengths = beams.lengths + 1
        too_short = lengths < self._config.min_length
        forced = []
        if has_prefixes:
            forced = [
                (place, ids[length - 1])
                for place, (ids, length) in enumerate(zip(self._prefixes, lengths.tolist(), strict=True))
                if length <= len(ids)
            ]
        if not (restricts or forced or too_short.any()):
            return None

        def restrict(logits: Tensor, normalisers: Tensor) -> None:
            if forbids_repetition:
                self._restrict_repetition(logits, normalisers, beams)
            if self._constraint is not None and self._table is not None:
                self._table = self._table.to(logits.device)
                classes = torch.from_numpy(self._constraint.classify(self._states)).to(logits.device)
                logits.masked_fill_(~self._table[classes], NOTHING)

        return Restriction(too_short, restrict if restricts else None, forced)

    def _restrict_repetition(self, logits: Tensor, normalisers: Tensor, beams: Beams) -> None:
        written = beams.written()
        if self._config.repetition_penalty != 1:
            ids = torch.from_numpy(written).to(logits.device)
            log_probs = logits.gather(2, ids) - normalisers[:, :, None]
            penalised = normalisers[:, :, None] + self._config.repetition_penalty * log_probs
            logits.scatter_(2, ids, penalised)
        if self._config.no_repeat_ngram_size:
            repeated = _tokens_that_repeat(written, beams.lengths, self._config.no_repeat_ngram_size)
            places = tuple(torch.from_numpy(index).to(logits.device) for index in repeated)
            logits[places] = NOTHING


def _below(states: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate both along the sentences, zero-padded to the larger width."""
    wide = max(states.shape[2], new.shape[2])
    return np.concatenate([np.pad(s, [(0, 0), (0, 0), (0, wide - s.shape[2])]) for s in (states, new)])


def _tokens_that_repeat(
    written: NDArray[np.int64], lengths: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Indices (sentence, beam, token) of the tokens that would repeat an n-gram."""
    if written.shape[2] < n:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    ngrams = sliding_window_view(written, n, axis=2)  # (sentences, beams, places, n)
    newest = np.maximum(lengths[:, None] + np.arange(1 - n, 0), 0)  # (sentences, n - 1)
    newest_tokens = np.take_along_axis(written, newest[:, None].repeat(written.shape[1], 1), 2)
    complete = np.arange(ngrams.shape[2]) + n <= lengths[:, None]  # (sentences, places)
    equal = (ngrams[..., :-1] == newest_tokens[:, :, None]).all(axis=3) & complete[:, None]
    sentence, beam, place = equal.nonzero()
    return sentence, beam, ngrams[sentence, beam, place, -1]
