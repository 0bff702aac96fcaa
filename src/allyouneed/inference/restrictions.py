"""Restrictions on outputs: minimum length, forced prefix, repetitions, and the constraints of a task."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import NOTHING, Beams
from allyouneed.inference.search_request import SearchRequest
from allyouneed.inference.selection import Restriction


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
    """Restricts the search of a batch that sentences join and leave.

    Args:
        config: Settings `min_length`, `no_repeat_ngram_size` and `repetition_penalty`.
        constraint: Output rules of the task, if any.
    """

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
