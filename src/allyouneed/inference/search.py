"""Beam search (paper 6.1) over any model that answers one step at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from torch.nn import functional

from allyouneed.config import SearchConfig
from allyouneed.symbols import END, PADDING, SENTINEL, START

NEVER_PRODUCED = (PADDING, START, SENTINEL)
"""Ids that no hypothesis contains. Their probability is lost, not spread over the others."""

LENGTH_PENALTIES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "average": lambda length, _: length,
    "none": lambda length, _: torch.ones_like(length),
}
"""Length normalisation -> the penalty by which a log-probability is divided, of the length and alpha."""

_NOTHING = float("-inf")
_LEAVING_SHARE = 1 / 8


@runtime_checkable
class Decoding(Protocol):
    """What search asks of a model: sentences being written, some hypotheses each, all of one length."""

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; the logits of the token that follows it."""

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Let hypothesis b of each sentence go on from what was hypothesis `parents[:, b]`."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences of the batch only."""


@dataclass(frozen=True)
class Hypothesis:
    """An output of search."""

    ids: list[int]
    """The tokens, without start and end symbol."""
    score: float
    """The log-probability, end symbol included, divided by the length penalty."""


def length_penalty(length: Int[Tensor, "*shape"], config: SearchConfig) -> Float64[Tensor, "*shape"]:
    """What scores are divided by; `length` counts the end symbol."""
    return LENGTH_PENALTIES[config.length_normalization](length.double(), config.length_penalty)


def beam_search(
    decoding: Decoding, max_lengths: Int[Tensor, " sentences"], config: SearchConfig, n_best: int = 1
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, best first.

    Each step extends the hypotheses that are alive to their `2 * beam_size` best candidates. Those that end
    are finished, and compete by their normalised score; the best others, `beam_size` of them, stay alive.
    A sentence is done when no hypothesis alive can come among its `n_best` finished ones any more, whatever
    it adds up to the maximum length. With a beam of 1 the one best candidate is taken: greedy search.
    Equal scores go to the lowest beam, then the lowest id.

    Args:
        decoding: Started with `config.beam_size` hypotheses for each sentence.
        max_lengths: The most tokens of an output, end symbol included, at least 1. Hypotheses alive at that
            length count as finished, without an end symbol.
        config: Beam size and length normalisation; `max_extra_tokens` has no effect here.
        n_best: How many hypotheses are wanted, at most `config.beam_size`; there may be fewer in all.
    """
    num_candidates = 2 * config.beam_size if config.beam_size > 1 else 1
    alive, finished = _empty(config.beam_size, max_lengths), _empty(n_best, max_lengths)
    alive.scores[:, 0] = 0.0
    sentences = torch.arange(len(max_lengths), device=max_lengths.device)
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    length = 0
    while len(sentences):
        length += 1
        candidates, parents = _extend(alive, decoding.step(alive.ids[:, :, -1]), num_candidates)
        ends = (candidates.ids[:, :, -1] == END) | (length >= max_lengths)[:, None]
        finished = _add_finished(finished, candidates.only(ends), length, config)
        going_on = candidates.only(~ends)
        chosen = _best_first(going_on.scores, config.beam_size)
        alive = going_on.take(chosen)
        decoding.reorder(parents.gather(1, chosen))

        bound = alive.scores[:, 0] / length_penalty(max_lengths, config)
        done = ~(bound > finished.scores[:, -1])
        # Leaving copies what stays, so those that are done wait for company; more steps change nothing.
        if int(done.sum()) < max(1.0, _LEAVING_SHARE * len(done)):
            continue
        for sentence, hypotheses in zip(
            sentences[done].tolist(), finished.keep(done).to_lists(), strict=True
        ):
            results[sentence] = hypotheses
        kept = (~done).nonzero()[:, 0]
        sentences, max_lengths = sentences[kept], max_lengths[kept]
        alive, finished = alive.keep(kept), finished.keep(kept)
        decoding.keep(kept)
    return results


class _Hypotheses(NamedTuple):
    """Some hypotheses of each sentence; a score of -inf marks an empty place."""

    scores: Float64[Tensor, "sentences places"]
    ids: Int[Tensor, "sentences places length"]
    """The start symbol and what was written, padded at the end."""

    def only(self, chosen: Tensor) -> "_Hypotheses":
        """The same with the places emptied where `chosen` is False."""
        return self._replace(scores=self.scores.masked_fill(~chosen, _NOTHING))

    def take(self, places: Int[Tensor, "sentences taken"]) -> "_Hypotheses":
        """The hypotheses at these places."""
        ids = self.ids.gather(1, places[:, :, None].expand(-1, -1, self.ids.size(2)))
        return _Hypotheses(self.scores.gather(1, places), ids)

    def keep(self, sentences: Tensor) -> "_Hypotheses":
        """The hypotheses of these sentences."""
        return _Hypotheses(self.scores[sentences], self.ids[sentences])

    def to_lists(self) -> list[list[Hypothesis]]:
        """All hypotheses of each sentence, empty places left out."""
        return [
            [
                Hypothesis([token for token in ids if token not in (PADDING, START, END)], score)
                for score, ids in zip(scores, rows, strict=True)
                if score > _NOTHING
            ]
            for scores, rows in zip(self.scores.tolist(), self.ids.tolist(), strict=True)
        ]


def _empty(num_places: int, max_lengths: Int[Tensor, " sentences"]) -> _Hypotheses:
    """Empty places in each sentence."""
    shape = len(max_lengths), num_places
    scores = torch.full(shape, _NOTHING, dtype=torch.float64, device=max_lengths.device)
    return _Hypotheses(scores, max_lengths.new_full((*shape, 1), START))


def _extend(
    alive: _Hypotheses, logits: Float[Tensor, "sentences beams vocab"], num_candidates: int
) -> tuple[_Hypotheses, Int[Tensor, "sentences candidates"]]:
    """The best continuations by one token, best first, and the beam that each goes on from."""
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    log_probs[:, :, list(NEVER_PRODUCED)] = _NOTHING
    best, tokens = stable_top_k(log_probs, num_candidates)  # no beam can give more than all candidates
    scores = (alive.scores[:, :, None] + best).flatten(1)  # (sentences, beams * best)
    chosen = _best_first(scores, num_candidates)
    parents = chosen // best.size(2)
    extended = alive.take(parents).ids
    token = tokens.flatten(1).gather(1, chosen)[:, :, None]
    return _Hypotheses(scores.gather(1, chosen), torch.cat([extended, token], dim=2)), parents


def _add_finished(finished: _Hypotheses, new: _Hypotheses, length: int, config: SearchConfig) -> _Hypotheses:
    """The best of those that were finished and of `new` ones of `length` tokens; the former where equal."""
    new_scores = new.scores / length_penalty(torch.tensor(length), config)
    both = _Hypotheses(
        torch.cat([finished.scores, new_scores], dim=1),
        torch.cat([functional.pad(finished.ids, (0, 1), value=PADDING), new.ids], dim=1),
    )
    return both.take(_best_first(both.scores, finished.scores.size(1)))


def _best_first(scores: Float64[Tensor, "sentences places"], num_best: int) -> Int[Tensor, "sentences best"]:
    """The places of the best scores, in order; the lower place where equal."""
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :num_best]


def stable_top_k(
    values: Float[Tensor, "*rows width"], k: int
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k largest values of each row and their places, largest first; the lower place where equal.

    All are returned, in that order, of a row of fewer than k.
    """
    largest, places = values.topk(min(k + 1, values.size(-1)))
    # topk leaves open which of equal values it takes, and their order; that shows in equal neighbours.
    tied = (largest[..., 1:] == largest[..., :-1]).any(dim=-1)
    if tied.any():
        ordered, order = values[tied].sort(dim=-1, descending=True, stable=True)
        largest[tied], places[tied] = ordered[..., : k + 1], order[..., : k + 1]
    return largest[..., :k], places[..., :k]
