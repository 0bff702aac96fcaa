"""Beam search (paper 6.1) over any model that answers one step at a time."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import NOTHING, Beams, Hypothesis
from allyouneed.inference.restrictions import Constraint, Restrictions
from allyouneed.inference.selection import Candidates, Restrict, top_log_probs
from allyouneed.inference.sentence import Sentence
from allyouneed.symbols import END

LENGTH_PENALTIES: dict[str, Callable[[Any, float], Any]] = {
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "average": lambda length, _: length,
    "none": lambda length, _: np.ones_like(length),
}
"""Length normalisation -> the penalty by which a log-probability is divided, of the length and alpha."""

_LEAVING_SHARE = 1 / 8


class Decoding(Protocol):
    """What search asks of a model: sentences being written, some hypotheses each, that join and leave.

    Tensors are handed to it on the CPU, wherever it computes.
    """

    @property
    def candidates(self) -> Candidates | None:
        """What the columns of the logits stand for; None where column i is token i."""

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Take up more sentences, which come after those that are there; sources have their end symbols."""

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; the logits of what follows, good until the next step."""

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Let hypothesis b of each sentence go on from what was hypothesis `parents[:, b]`."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences of the batch only, each as often as it is named."""


Select = Callable[
    [Tensor, int, Restrict | None, Sequence[Sentence], NDArray[np.int64]], tuple[Tensor, Tensor]
]
"""What search goes on with: up to so many tokens (sentences, beams, chosen) after each hypothesis, and before
them their log-probabilities, from logits (sentences, beams, vocab) that may be overwritten, what forbids
tokens, the sentences, and how many tokens of each are written."""


def most_probable(
    logits: Float[Tensor, "sentences beams vocab"],
    num_tokens: int,
    restrict: Restrict | None,
    sentences: Sequence[Sentence],
    lengths: NDArray[np.int64],
) -> tuple[Float[Tensor, "sentences beams chosen"], Int[Tensor, "sentences beams chosen"]]:
    """The `Select` of beam search."""
    return top_log_probs(logits, num_tokens, restrict)


def length_penalty(length: NDArray[np.int64], config: SearchConfig) -> NDArray[np.float64]:
    """What scores are divided by; `length` counts the end symbol."""
    penalty: NDArray[np.float64] = LENGTH_PENALTIES[config.length_normalization](
        np.asarray(length, np.float64), config.length_penalty
    )
    return penalty


class BeamSearch:
    """The search of a batch that sentences join and leave.

    Each step extends the hypotheses that are alive to their `2 * beam_size` best candidates. Those that end
    are finished, and compete by their normalised score; the best others, `beam_size` of them, stay alive.
    A sentence is done when no hypothesis alive can come among its `n_best` finished ones any more, whatever
    it adds up to the maximum length; with `early_stopping`, when `beam_size` have ended among the best
    `beam_size` candidates of their steps. With a beam of 1 the one best candidate is taken: greedy search.
    Equal scores go to the lowest beam, then the lowest id.

    Args:
        decoding: Started without sentences, for `config.beam_size` hypotheses each.
        config: Beam size, length normalisation, and what is forbidden; lengths are those of the sentences.
        n_best: How many hypotheses are wanted, at most `config.beam_size`; there may be fewer in all.
        constraint: What outputs may consist of.
        select: Selects what follows a hypothesis; by default the most probable tokens.
    """

    def __init__(
        self,
        decoding: Decoding,
        config: SearchConfig,
        n_best: int = 1,
        constraint: Constraint | None = None,
        select: Select = most_probable,
    ) -> None:
        self._decoding, self._config, self._select = decoding, config, select
        self._num_candidates = 2 * config.beam_size if config.beam_size > 1 else 1
        self._restrictions = Restrictions(config, constraint)
        self._beams = Beams.of(np.empty(0, np.int64), config.beam_size, n_best)
        self.sentences: list[Sentence] = []
        """The sentences that are being searched."""

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Begin to search more sentences."""
        self._decoding.admit([sentence.source for sentence in sentences])
        self._restrictions.admit(sentences)
        self._beams = self._beams.with_more(np.array([sentence.max_length for sentence in sentences]))
        self.sentences.extend(sentences)

    def step(self) -> list[tuple[Sentence, list[Hypothesis]]]:
        """Write one more token everywhere.

        Returns:
            The sentences that leave, with their hypotheses, best first. Leaving copies what stays, so those
            that are done wait for company, and write no more.
        """
        beams, config = self._beams, self._config
        logits = self._decoding.step(torch.from_numpy(beams.last_tokens()))
        restrict = self._restrictions.of(beams)
        columns = self._decoding.candidates
        if columns is not None and (restrict is not None or self._select is not most_probable):
            logits, columns = columns.spread(logits), None
        log_probs, tokens = self._select(
            logits, self._num_candidates, restrict, self.sentences, beams.lengths
        )
        tokens = tokens if columns is None else columns.at(tokens)
        candidates = beams.extend(log_probs.cpu().numpy(), tokens.cpu().numpy(), self._num_candidates)
        beams.lengths += 1
        ends = (candidates["token"] == END) | (beams.lengths >= beams.max_lengths)[:, None]
        beams.finish(candidates, ends, length_penalty(beams.lengths, config))
        parents = beams.go_on(candidates, ends)
        self._decoding.reorder(torch.from_numpy(parents))
        self._restrictions.advance(parents, beams.last_tokens())
        bound = beams.scores[:, 0] / length_penalty(beams.max_lengths, config)
        done = ~(bound > beams.finished["score"][:, -1])
        if config.early_stopping:
            done |= beams.num_ended >= config.beam_size
        beams.scores[done] = NOTHING  # so that what others do while it waits changes nothing
        return self._leave(done)

    def stable_prefix(self, place: int) -> list[int]:
        """The tokens with which the best hypothesis of sentence `place` begins, whatever comes."""
        return self._beams.common_prefix(place)

    def _leave(self, done: NDArray[np.bool_]) -> list[tuple[Sentence, list[Hypothesis]]]:
        at_end = self._beams.lengths >= self._beams.max_lengths  # there may be no positions beyond
        if not at_end.any() and done.sum() < max(1.0, _LEAVING_SHARE * len(done)):
            return []
        left = [(self.sentences[place], self._beams.best(place)) for place in done.nonzero()[0].tolist()]
        kept = (~done).nonzero()[0]
        self.sentences = [self.sentences[place] for place in kept]
        self._beams = self._beams.keep(kept)
        self._restrictions.keep(kept)
        self._decoding.keep(torch.from_numpy(kept))
        return left
