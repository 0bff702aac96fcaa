"""The input, the state and the output of beam search: requests, live hypotheses and finished ones."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.required_phrases import RequiredPhrases
from allyouneed.native.beam_kernels import Arrays, NativeBeams
from allyouneed.native.library import library
from allyouneed.symbols import END, START


@dataclass(frozen=True)
class SearchRequest:
    """One source to decode, with its limits."""

    key: int
    """The caller's identifier of the sentence."""
    source: Sequence[int]
    """Token ids with the end symbol."""
    max_length: int
    """Maximum output length in tokens, end symbol included, at least 1. A hypothesis still alive at that
    length is finished without an end symbol."""
    prefix: Sequence[int] = ()
    """Token ids that every output begins with, fewer than `max_length`."""
    num_given: int = 0
    """Number of the prefix's first tokens that are no part of the output's probability."""
    sample: int = 0
    """Number of this sample among the samples of its source (sampling only)."""
    required: RequiredPhrases | None = None
    """Phrases that every output contains; not with sampling."""


NOTHING = float("-inf")
"""Score of an empty slot."""

_FIRST_POSITIONS = 32
_CANDIDATE = np.dtype(
    [("score", np.float64), ("log_prob", np.float32), ("token", np.int64), ("parent", np.int64)]
)
_FINISHED = np.dtype(
    [*((name, _CANDIDATE[name]) for name in _CANDIDATE.names or ()), ("length", np.int64)], align=True
)


@dataclass(frozen=True)
class Hypothesis:
    """An output of search."""

    ids: list[int]
    """Token ids, without start and end symbol."""
    score: float
    """Log-probability, end symbol included, divided by the length penalty."""
    token_log_probs: list[float] = field(default_factory=list)
    """Natural logarithm of the probability of each token, the end symbol's last."""
    alignment: list[tuple[int, int]] = field(default_factory=list)
    """Positions (source, target) of aligned tokens, if alignments were requested."""

    @property
    def ended(self) -> bool:
        """Whether the output has an end symbol; if not, it was cut at the maximum length."""
        return len(self.token_log_probs) > len(self.ids)


@dataclass(frozen=True)
class SearchRules:
    """Settings of the search that its steps do not change."""

    num_candidates: int
    """Number of candidates per sentence."""
    penalties: NDArray[np.float64]
    """Divisor of the log-probability of each length up to the longest maximum length, from length 0."""
    early_stopping: bool = False
    """Whether a sentence is done when `num_ended` reaches the beam size."""
    min_length: int = 0
    """Minimum length, for steps that no `Restriction` is made for."""
    native: bool = field(default_factory=lambda: library() is not None)
    """Whether the kernel advances the hypotheses, with the same results as numpy."""


@dataclass
class Beams:
    """The hypotheses of each sentence of a batch. Position 0 is the start symbol.

    The hypotheses are a table of tokens with back-pointers, so a step moves nothing; a hypothesis is read
    from its end.
    """

    scores: NDArray[np.float64]
    """(sentences, beams): log-probability, best first."""
    lengths: NDArray[np.int64]
    """(sentences): number of tokens of the live hypotheses."""
    max_lengths: NDArray[np.int64]
    """(sentences): maximum number of tokens."""
    tokens: NDArray[np.int64]
    """(sentences, beams, positions): token ids."""
    parents: NDArray[np.int64]
    """(sentences, beams, positions): index of the parent hypothesis, one position before."""
    log_probs: NDArray[np.float32]
    """(sentences, beams, positions): log-probability of each token."""
    num_ended: NDArray[np.int64]
    """(sentences): number of hypotheses that ended among the best `beam_size` candidates of a step."""
    finished: NDArray[Any]
    """(sentences, n_best) of `_FINISHED`, best first, those with an end symbol before others; scores are
    normalised."""
    _prepared: tuple[SearchRules, NativeBeams] | None = field(default=None, init=False)

    @classmethod
    def of(cls, max_lengths: NDArray[np.int64], beam_size: int, n_best: int) -> Self:
        """Make the state of new sentences."""
        num = len(max_lengths)
        table = num, beam_size, _FIRST_POSITIONS
        scores = np.full((num, beam_size), NOTHING)
        scores[:, 0] = 0.0
        finished = np.zeros((num, n_best), _FINISHED)
        finished["score"] = NOTHING
        return cls(
            scores=scores,
            lengths=np.zeros(num, np.int64),
            max_lengths=max_lengths,
            tokens=np.full(table, START),
            parents=np.zeros(table, np.int64),
            log_probs=np.zeros(table, np.float32),
            num_ended=np.zeros(num, np.int64),
            finished=finished,
        )

    def with_more(self, max_lengths: NDArray[np.int64]) -> Self:
        """Append new sentences; return the joint state."""
        new = self.of(max_lengths, self.scores.shape[1], self.finished.shape[1])
        while new.tokens.shape[2] < self.tokens.shape[2]:
            new._double_positions()
        more = new._arrays()
        return type(self)(
            **{name: np.concatenate([array, more[name]]) for name, array in self._arrays().items()}
        )

    def keep(self, sentences: NDArray[np.int64]) -> Self:
        """Keep only these sentences; return their state."""
        return type(self)(**{name: array[sentences] for name, array in self._arrays().items()})

    def last_tokens(self) -> NDArray[np.int64]:
        """The last token of each live hypothesis (sentences, beams)."""
        return self.tokens[np.arange(len(self.lengths)), :, self.lengths]

    def advance(
        self, log_probs: NDArray[np.float32], tokens: NDArray[np.int64], rules: SearchRules
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Extend every hypothesis by one token; `native/search.c` does the same, to the bit.

        `tokens` (sentences, beams, k) are the best next tokens, and `log_probs` theirs.

        Returns:
            The parent of each new hypothesis (sentences, beams), and which sentences are done; the
            hypotheses of these stay as they are.
        """
        if rules.native:
            return self.native(rules).advance(log_probs, tokens)
        self.make_room(1)
        candidates = self.extend(log_probs, tokens, rules.num_candidates)
        self.lengths += 1
        ends = (candidates["token"] == END) | (self.lengths >= self.max_lengths)[:, None]
        self.finish(candidates, ends, rules.penalties[self.lengths])
        parents = self.go_on(candidates, ends)
        bound = self.scores[:, 0] / rules.penalties[self.max_lengths]
        done = ~(bound > self.finished["score"][:, -1])
        if rules.early_stopping:
            done |= self.num_ended >= self.scores.shape[1]
        self.scores[done] = NOTHING  # freezes the results of sentences that wait to leave
        return parents, done

    def native(self, rules: SearchRules, num_steps: int = 1) -> NativeBeams:
        """The arrays for some steps of the kernel, which changes them in place."""
        self.make_room(num_steps)
        if self._prepared is None or self._prepared[0] is not rules:
            arrays = Arrays(**self._arrays(), penalties=rules.penalties)
            self._prepared = rules, NativeBeams(arrays, rules.num_candidates, rules.early_stopping)
        return self._prepared[1]

    def extend(
        self, log_probs: NDArray[np.float32], tokens: NDArray[np.int64], num_candidates: int
    ) -> NDArray[Any]:
        """Find the best continuations by one token, best first.

        `tokens` (sentences, beams, k) are the best next tokens, and `log_probs` theirs.

        Returns:
            (sentences, num_candidates) of `_CANDIDATE`; score is the log-probability.
        """
        k = tokens.shape[2]
        scores = (self.scores[:, :, None] + log_probs).reshape(len(self.scores), -1)
        scores[~(scores > NOTHING)] = NOTHING  # NaN too
        chosen = best_first(scores, num_candidates)
        candidates = np.empty(chosen.shape, _CANDIDATE)
        taken = np.arange(len(chosen))[:, None], chosen
        candidates["score"] = scores[taken]
        candidates["log_prob"] = log_probs.reshape(scores.shape)[taken]
        candidates["token"] = tokens.reshape(scores.shape)[taken]
        candidates["parent"] = chosen // k
        return candidates

    def finish(self, candidates: NDArray[Any], ends: NDArray[np.bool_], penalty: NDArray[np.float64]) -> None:
        """Merge candidates that end into the finished hypotheses; keep the best, with ties to older ones.

        Outputs cut at the maximum length rank after all that ended by themselves.
        """
        if not ends.any():
            return
        self.num_ended += (ends & (candidates["score"] > NOTHING))[:, : self.scores.shape[1]].sum(axis=1)
        new = np.empty(candidates.shape, _FINISHED)
        for name in ("log_prob", "token", "parent"):
            new[name] = candidates[name]
        new["score"] = np.where(ends, candidates["score"] / penalty[:, None], NOTHING)
        new["length"] = self.lengths[:, None]
        both = np.concatenate([self.finished, new], axis=1)
        has_end = (both["token"] == END) & (both["score"] > NOTHING)
        order = np.lexsort([-both["score"], ~has_end])[:, : self.finished.shape[1]]
        self.finished = both[np.arange(len(both))[:, None], order]

    def go_on(self, candidates: NDArray[Any], ends: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Replace the live hypotheses by the best candidates that do not end.

        Returns:
            The parent of each new hypothesis (sentences, beams).
        """
        scores = np.where(ends, NOTHING, candidates["score"])
        chosen = best_first(scores, self.scores.shape[1])
        sentences = np.arange(len(chosen))
        taken = sentences[:, None], chosen
        self.scores, alive = scores[taken], candidates[taken]
        self.tokens[sentences, :, self.lengths] = alive["token"]
        self.parents[sentences, :, self.lengths] = alive["parent"]
        self.log_probs[sentences, :, self.lengths] = alive["log_prob"]
        return alive["parent"].copy()

    def best(self, sentence: int) -> list[Hypothesis]:
        """The finished hypotheses of a sentence, best first."""
        return [
            self._hypothesis(sentence, ended)
            for ended in self.finished[sentence].tolist()
            if ended[0] > NOTHING
        ]

    def common_prefix(self, sentence: int) -> list[int]:
        """The longest common prefix of all hypotheses of a sentence, live and finished."""
        length = int(self.lengths[sentence])
        alive = (self.scores[sentence] > NOTHING).nonzero()[0]
        written = [self._read(sentence, int(beam), length)[0] for beam in alive]
        written += [hypothesis.ids for hypothesis in self.best(sentence)]
        return written[0][: num_common(*written)]

    def written(self) -> NDArray[np.int64]:
        """Tokens of the live hypotheses (sentences, beams, longest), padded with start symbols."""
        ids = np.full((*self.scores.shape, int(self.lengths.max(initial=0))), START)
        sentences = np.arange(len(ids))[:, None]
        beams = np.broadcast_to(np.arange(ids.shape[1]), self.scores.shape)
        for position in range(ids.shape[2], 0, -1):
            reached = (self.lengths >= position)[:, None]
            ids[:, :, position - 1] = np.where(reached, self.tokens[sentences, beams, position], START)
            beams = np.where(reached, self.parents[sentences, beams, position], beams)
        return ids

    def _hypothesis(self, sentence: int, ended: tuple[float, float, int, int, int]) -> Hypothesis:
        score, log_prob, token, parent, length = ended
        ids, log_probs = self._read(sentence, parent, length - 1)
        return Hypothesis(ids if token == END else [*ids, token], score, [*log_probs, log_prob])

    def _read(self, sentence: int, beam: int, length: int) -> tuple[list[int], list[float]]:
        """The tokens of a hypothesis and their log-probabilities."""
        tokens, parents, log_probs = (
            table[sentence, :, : length + 1].tolist() for table in (self.tokens, self.parents, self.log_probs)
        )
        ids, of_ids = [], []
        for position in range(length, 0, -1):
            ids.append(tokens[beam][position])
            of_ids.append(log_probs[beam][position])
            beam = parents[beam][position]
        return ids[::-1], of_ids[::-1]

    def make_room(self, num_tokens: int) -> None:
        """Make room for more tokens of each hypothesis."""
        while self.lengths.max() + num_tokens >= self.tokens.shape[2]:
            self._double_positions()

    def _double_positions(self) -> None:
        self.tokens, self.parents, self.log_probs = (
            np.concatenate([table, np.zeros_like(table)], axis=2)
            for table in (self.tokens, self.parents, self.log_probs)
        )
        self._prepared = None

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self) if entry.init}


def num_common(*sequences: Sequence[int]) -> int:
    """Number of first tokens that sequences have in common."""
    together = zip(*sequences, strict=False)
    return sum(1 for _ in takewhile(lambda tokens: len({*tokens}) == 1, together))


def best_first(scores: NDArray[np.float64], num_best: int) -> NDArray[np.int64]:
    """Indices of the best scores of each row, in descending order; ties go to the lower index."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :num_best]
