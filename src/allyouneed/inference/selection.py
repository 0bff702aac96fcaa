"""The choice of the next tokens, and its restrictions: lengths, prefixes, repetitions, rules."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import NOTHING, Beams, SearchRequest
from allyouneed.inference.sampling import Draws, draw
from allyouneed.native import kernels
from allyouneed.native.arrays import Bool, Float32, Int64
from allyouneed.symbols import END, NEVER_PRODUCED


@dataclass(frozen=True)
class Candidates:
    """Maps the columns of logits to tokens when the columns are not the whole vocabulary."""

    ids: Int64[np.ndarray, "sentences columns"]
    """Token ids, ascending, control symbols first; padded at the end, where logits are -inf."""
    vocab_size: int

    def at(self, columns: Int64[np.ndarray, "sentences beams k"]) -> Int64[np.ndarray, "sentences beams k"]:
        """The tokens of these columns."""
        return np.take_along_axis(self.ids[:, None], columns, axis=2)

    def spread(
        self, logits: Float32[np.ndarray, "sentences beams columns"]
    ) -> Float32[np.ndarray, "sentences beams vocab"]:
        """Spread logits over the whole vocabulary, with -inf for all other tokens."""
        wide = np.full((*logits.shape[:2], self.vocab_size), NOTHING, np.float32)
        # The maximum, as fill columns also carry the padding id and must not overwrite its logit.
        padding = logits[:, :, 0].copy()
        np.put_along_axis(wide, np.broadcast_to(self.ids[:, None], logits.shape), logits, axis=2)
        wide[:, :, 0] = padding
        return wide


class Penalty(NamedTuple):
    """Tokens whose log-probability is multiplied by a factor."""

    ids: Int64[np.ndarray, "sentences beams n"]
    factor: float


class Allowed(NamedTuple):
    """The tokens that the rules of a task allow."""

    table: Bool[np.ndarray, "classes vocab"]
    classes: Int64[np.ndarray, "sentences beams"]


@dataclass(frozen=True)
class Restriction:
    """The tokens that a step may not choose, or with a lower score."""

    cannot_end: Bool[np.ndarray, " sentences"]
    """Whether the hypotheses are too short to end."""
    forced: Sequence[tuple[int, int, bool]] = ()
    """Sentences with the one token that each must choose, whatever else restricts it, and whether it is
    given, with probability 1."""
    penalty: Penalty | None = None
    repeated: tuple[NDArray[np.int64], ...] | None = None
    """Indices (sentence, beam, token) of the tokens that would repeat an n-gram."""
    allowed: Allowed | None = None

    @property
    def is_of_lengths(self) -> bool:
        """Whether `cannot_end` is all that restricts the hypotheses."""
        return not (self.forced or self.penalty or self.repeated or self.allowed)

    def apply(
        self,
        logits: Float32[np.ndarray, "sentences beams vocab"],
        normalisers: Float32[np.ndarray, "sentences beams"],
    ) -> None:
        """Lower the logits of disallowed tokens in place."""
        kept = [
            (normalisers[sentence] if is_given else logits[sentence, :, token]).copy()
            for sentence, token, is_given in self.forced
        ]
        if self.penalty is not None:
            ids, factor = self.penalty
            log_probs = np.take_along_axis(logits, ids, axis=2) - normalisers[..., None]
            np.put_along_axis(logits, ids, normalisers[..., None] + factor * log_probs, axis=2)
        if self.repeated is not None:
            logits[self.repeated] = NOTHING
        if self.allowed is not None:
            np.copyto(logits, NOTHING, where=~self.allowed.table[self.allowed.classes])
        logits[self.cannot_end, :, END] = NOTHING
        for (sentence, token, _), values in zip(self.forced, kept, strict=True):
            logits[sentence] = NOTHING
            logits[sentence, :, token] = values


@dataclass(frozen=True)
class Continuation:
    """How each hypothesis is continued."""

    num_tokens: int
    """Maximum number of tokens; 1 if they are drawn."""
    restriction: Restriction | None = None
    draws: Draws | None = None
    """How tokens are drawn; None to take the most probable ones."""


class Chosen(NamedTuple):
    """The chosen tokens of each hypothesis, best first; ties go to the lower id."""

    log_probs: Float32[np.ndarray, "sentences beams k"]
    tokens: Int64[np.ndarray, "sentences beams k"]


def choose(
    logits: Float32[np.ndarray, "sentences beams columns"],
    continuation: Continuation,
    candidates: Candidates | None = None,
) -> Chosen:
    """Choose tokens by their logits, which may be overwritten.

    A row of too few tokens is returned whole, in order. `candidates` are the tokens of the columns, by
    default the whole vocabulary.
    """
    restriction, k = continuation.restriction, min(continuation.num_tokens, logits.shape[-1])
    if continuation.draws is None and (restriction is None or restriction.is_of_lengths):
        cannot_end = None if restriction is None else restriction.cannot_end.repeat(logits.shape[1])
        log_probs, ids = kernels.top_log_probs(logits, k, NEVER_PRODUCED, cannot_end=cannot_end)
        return Chosen(log_probs, ids if candidates is None else candidates.at(ids))
    # Of the columns, not of the whole vocabulary: a restriction of other sentences must not change the bits.
    normalisers = kernels.log_sum_exp(logits)
    logits = logits if candidates is None else candidates.spread(logits)
    if restriction is not None:
        restriction.apply(logits, normalisers)
    if continuation.draws is None:
        return Chosen(*kernels.top_log_probs(logits, k, NEVER_PRODUCED, normalisers))
    tokens = draw(logits[:, 0], continuation.draws)[:, None, None]
    return Chosen(np.take_along_axis(logits, tokens, axis=2) - normalisers[..., None], tokens)


def log_softmax(logits: Float32[np.ndarray, "*rows vocab"]) -> Float32[np.ndarray, "*rows vocab"]:
    """The log-probability of each token."""
    found: NDArray[np.float32] = logits - kernels.log_sum_exp(logits)[..., None]
    return found


def log_mean(members: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Logarithm of the mean of probabilities, given their logarithms."""
    largest = np.maximum(functools.reduce(np.maximum, members), np.finfo(np.float32).min)
    total = functools.reduce(np.add, (np.exp(member - largest) for member in members))
    with np.errstate(divide="ignore"):  # of tokens that are impossible
        mean: NDArray[np.float32] = largest + np.log(total) - np.float32(math.log(len(members)))
    return mean


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
        self._prefixes: list[tuple[Sequence[int], int]] = []
        self._states = np.empty(0, np.int64)

    def admit(self, sentences: Sequence[SearchRequest]) -> None:
        """Add sentences."""
        self._prefixes += [(sentence.prefix, sentence.num_given) for sentence in sentences]
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
        n, factor = self._config.no_repeat_ngram_size, self._config.repetition_penalty
        restricts = n or factor != 1 or self._constraint is not None
        has_prefixes = any(ids for ids, _ in self._prefixes)
        if not (restricts or has_prefixes or self._config.min_length > 1):
            return None
        lengths = beams.lengths + 1
        too_short = lengths < self._config.min_length
        forced = []
        if has_prefixes:
            forced = [
                (place, ids[length - 1], length <= given)
                for place, ((ids, given), length) in enumerate(
                    zip(self._prefixes, lengths.tolist(), strict=True)
                )
                if length <= len(ids)
            ]
        if not (restricts or forced or too_short.any()):
            return None
        written = beams.written() if n or factor != 1 else np.empty(0, np.int64)
        constraint = self._constraint
        return Restriction(
            too_short,
            forced,
            Penalty(written, factor) if factor != 1 else None,
            _tokens_that_repeat(written, beams.lengths, n) if n else None,
            Allowed(constraint.table, constraint.classify(self._states)) if constraint else None,
        )


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
