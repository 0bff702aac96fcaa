"""Beam search (paper 6.1) over any model that decodes one token at a time.

`plain_search.py` is the same search in its plain form, to be read first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Beams, Hypothesis, SearchRequest, SearchRules
from allyouneed.inference.phrase_search import PhraseSearch
from allyouneed.inference.sampling import draws_of
from allyouneed.inference.selection import (
    Candidates,
    Chosen,
    Constraint,
    Continuation,
    Restriction,
    Restrictions,
    choose,
    log_mean,
    log_softmax,
)
from allyouneed.native.arrays import Int64
from allyouneed.native.beam_kernels import NativeBeams

LENGTH_PENALTIES: dict[str, Callable[[Any, float], Any]] = {
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "average": lambda length, _: length,
    "none": lambda length, _: np.ones_like(length),
}
"""Penalty functions by name: (length, alpha) -> divisor of the log-probability."""

STEPS_BETWEEN_LOOKS = 8
"""Number of steps that a device, or the kernels with one sentence, do before the host looks what is done."""
_LEAVING_SHARE = 1 / 8


class Decoding(ABC):
    """A batch that a model decodes: sentences, each with its hypotheses, join and leave."""

    has_tensors = False
    """Whether logits are tensors, which `choose` and `log_mean` of this decoding know, and not arrays."""
    is_resident = False
    """Whether `search_on_device` can be used."""
    is_quick = False
    """Whether steps are so short that nobody notices if a stream shows several at once."""

    @property
    def searches(self) -> bool:
        """Whether `search` can be used."""
        return False

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; None if column i is token i."""
        return None

    @abstractmethod
    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Append sentences to the batch; sources include their end symbols."""

    @abstractmethod
    def logits(self, tokens: Int64[np.ndarray, "sentences beams"]) -> Any:
        """Append a token to every hypothesis; return the next logits, valid until the next step."""

    def step(self, tokens: Int64[np.ndarray, "sentences beams"], continuation: Continuation) -> Chosen:
        """Append a token to every hypothesis; choose how each is continued."""
        return self.choose(self.logits(tokens), continuation)

    def choose(self, logits: Any, continuation: Continuation) -> Chosen:
        """Choose how each hypothesis is continued, by the next logits, which may be overwritten."""
        return choose(logits, continuation, self.candidates)

    def log_mean(self, logits: Sequence[Any]) -> Any:
        """Logarithm of the mean probability of each next token, given the logits of several members."""
        return log_mean([log_softmax(each) for each in logits])

    @abstractmethod
    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""

    @abstractmethod
    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch; an index may occur several times."""

    def search(
        self, beams: NativeBeams, cannot_end: NDArray[np.bool_] | None, num_steps: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Do whole steps: choose the most probable tokens, advance `beams` in place, and reorder.

        `beams` is from `Beams.native`; `cannot_end` are the sentences whose hypotheses are too short to end.
        There are `num_steps` steps, or fewer if one ends a sentence.

        Returns:
            The parent of each new hypothesis (sentences, beams) in the last step; which sentences are done.
        """
        raise NotImplementedError

    def search_on_device(self, beams: Beams, rules: SearchRules, num_steps: int) -> NDArray[np.bool_]:
        """Do whole steps without the host: choose the most probable tokens, advance `beams`, and reorder.

        No sentence grows beyond its maximum length; no restriction but `rules.min_length` is known.

        Returns:
            Which sentences are done.
        """
        raise NotImplementedError


def length_penalty(length: NDArray[np.int64], config: SearchConfig) -> NDArray[np.float64]:
    """The divisor of the log-probability; `length` counts the end symbol."""
    penalty: NDArray[np.float64] = LENGTH_PENALTIES[config.length_normalization](
        np.asarray(length, np.float64), config.length_penalty
    )
    return penalty


class BeamSearch:
    """Beam search over a batch that sentences join and leave.

    Each step extends the live hypotheses of a sentence to their `2 * beam_size` best candidates. Candidates
    that end become finished hypotheses, ranked by normalised score; the best `beam_size` others stay alive. A
    sentence is done when no live hypothesis can still enter its `n_best` finished ones, whatever follows up
    to the maximum length. With `early_stopping` it is done when `beam_size` hypotheses have ended among the
    best `beam_size` candidates of their steps. A beam of 1 takes the one best candidate: greedy search. Ties
    go to the lowest beam, then the lowest id. Maximum lengths come from the sentences. With `sampling`,
    tokens are drawn, and the beam is 1.
    """

    def __init__(
        self,
        decoding: Decoding,
        config: SearchConfig,
        n_best: int = 1,
        constraint: Constraint | None = None,
    ) -> None:
        self._decoding, self._config = decoding, config
        self._rules = self._rules_up_to(0)
        self._restrictions = Restrictions(config, constraint)
        self._phrases = PhraseSearch(config.beam_size)
        self._beams = Beams.of(np.empty(0, np.int64), config.beam_size, n_best)
        self._told = np.empty(0, np.bool_)
        self.sentences: list[SearchRequest] = []
        """The sentences in the batch, including those that are done but not yet removed."""

    def admit(self, sentences: Sequence[SearchRequest]) -> None:
        """Add sentences to the batch."""
        self._decoding.admit([sentence.source for sentence in sentences])
        self._restrictions.admit(sentences)
        self._phrases.admit(sentences)
        max_lengths = np.array([sentence.max_length for sentence in sentences], np.int64)
        self._beams = self._beams.with_more(max_lengths)
        self._told = np.append(self._told, np.zeros(len(sentences), np.bool_))
        longest = int(self._beams.max_lengths.max(initial=0))
        if longest >= len(self._rules.penalties):
            self._rules = self._rules_up_to(longest)
        self.sentences.extend(sentences)

    def step(self) -> list[tuple[SearchRequest, list[Hypothesis]]]:
        """Extend every hypothesis by one token, or by several: `STEPS_BETWEEN_LOOKS` at most.

        Returns:
            The sentences that are now done, with their hypotheses, best first. Removal copies the rest of the
            batch, so they stay in `sentences`, unchanged, until enough of them can be removed together.
        """
        beams, restriction = self._beams, self._restrictions.of(self._beams)
        if self._can_stay_on_device(restriction):
            return self._leave(self._on_device())
        parents, done = self._in_one_call(restriction) or self._in_parts(restriction)
        self._restrictions.advance(parents, beams)
        return self._leave(done)

    def remove(self, keys: Container[int]) -> None:
        """Remove the sentences with these keys, whether they are done or not."""
        self._keep(np.array([sentence.key not in keys for sentence in self.sentences], np.bool_).nonzero()[0])

    def stable_prefix(self, place: int) -> list[int]:
        """The leading tokens of sentence `place` that no further step can change."""
        return self._beams.common_prefix(place)

    def _can_stay_on_device(self, restriction: Restriction | None) -> bool:
        """Whether the decoding can do steps on its device, without the host."""
        if self._config.sampling or not self._decoding.is_resident or self._phrases:
            return False
        return restriction is None or restriction.is_of_lengths

    def _on_device(self) -> NDArray[np.bool_]:
        """Do as many steps on the device as the longest sentence may still have; return which are done."""
        num_left = int((self._beams.max_lengths - self._beams.lengths).max())
        return self._decoding.search_on_device(self._beams, self._rules, min(num_left, STEPS_BETWEEN_LOOKS))

    def _in_one_call(
        self, restriction: Restriction | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """Do steps in one call; return what `Beams.advance` does, or None if the decoding cannot do it.

        There are several if these are short and sentences few, so that all leave as soon as they are done.
        """
        decoding = self._decoding
        if not (self._rules.native and decoding.searches) or self._config.sampling or self._phrases:
            return None
        if restriction is not None and not restriction.is_of_lengths:
            return None
        if restriction is not None or not decoding.is_quick:
            cannot_end = None if restriction is None else restriction.cannot_end
            return decoding.search(self._beams.native(self._rules), cannot_end, 1)
        num_left = int((self._beams.max_lengths - self._beams.lengths).min())
        num_steps = max(1, min(STEPS_BETWEEN_LOOKS // len(self.sentences), num_left))
        return decoding.search(self._beams.native(self._rules, num_steps), None, num_steps)

    def _in_parts(self, restriction: Restriction | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Do a step in several calls; return what `Beams.advance` does."""
        sampling, lengths = self._config.sampling, self._beams.lengths
        draws = draws_of(self.sentences, lengths, self._config) if sampling else None
        continuation = Continuation(self._rules.num_candidates, restriction, draws)
        if self._phrases:
            chosen = self._with_phrases(continuation)
        else:
            chosen = self._decoding.step(self._beams.last_tokens(), continuation)
        parents, done = self._beams.advance(*chosen, self._rules)
        if self._phrases:
            self._phrases.advance(parents, self._beams)
        self._decoding.reorder(parents)
        return parents, done

    def _with_phrases(self, continuation: Continuation) -> Chosen:
        """Choose how hypotheses are continued, where some sentences must contain phrases."""
        logits = self._decoding.logits(self._beams.last_tokens())
        restriction = continuation.restriction
        needed = self._phrases.needed(logits, self._beams.lengths.tolist(), restriction)
        for place, *_ in restriction.forced if restriction else ():
            needed.pop(place, None)
        chosen = self._decoding.choose(logits, continuation)
        return self._phrases.share_out(chosen, needed, self._beams)

    def _rules_up_to(self, longest: int) -> SearchRules:
        """The rules for sentences of this maximum length."""
        beam_size = self._config.beam_size
        return SearchRules(
            2 * beam_size if beam_size > 1 else 1,
            length_penalty(np.arange(longest + 1), self._config),
            self._config.early_stopping,
            self._config.min_length,
        )

    def _leave(self, done: NDArray[np.bool_]) -> list[tuple[SearchRequest, list[Hypothesis]]]:
        num_done = np.count_nonzero(done)
        if not num_done:
            return []
        news = (done & ~self._told).nonzero()[0].tolist()
        self._told |= done
        ended = [(self.sentences[place], self._beams.best(place)) for place in news]
        at_end = self._beams.lengths >= self._beams.max_lengths  # the model may have no further positions
        if at_end.any() or num_done >= _LEAVING_SHARE * len(done):
            self._keep((~done).nonzero()[0])
        return ended

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self.sentences = [self.sentences[place] for place in kept]
        self._beams, self._told = self._beams.keep(kept), self._told[kept]
        self._restrictions.keep(kept)
        self._phrases.keep(kept.tolist())
        self._decoding.keep(kept)
