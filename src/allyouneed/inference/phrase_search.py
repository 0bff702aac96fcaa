"""Beam search for outputs that contain given phrases, with dynamic beam allocation (Post and Vilar 2018).

A hypothesis competes with those that lack as many phrases as it does, so one that has begun a phrase at a
high price survives beside those that put it off. None ends before it has all phrases.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.beams import NOTHING, Beams, SearchRequest
from allyouneed.inference.required_phrases import Progress, RequiredPhrases
from allyouneed.inference.selection import Chosen, Restriction
from allyouneed.symbols import END, NEVER_PRODUCED


class _Candidate(NamedTuple):
    score: float
    beam: int
    token: int
    log_prob: float


class PhraseSearch:
    """The required phrases of a batch that sentences join and leave."""

    def __init__(self, beam_size: int) -> None:
        self._beam_size = beam_size
        self._required: list[RequiredPhrases | None] = []
        self._progress: list[list[Progress]] = []

    def __bool__(self) -> bool:
        """Whether an output must contain anything."""
        return any(self._required)

    def admit(self, sentences: Sequence[SearchRequest]) -> None:
        """Add sentences."""
        for required in (sentence.required for sentence in sentences):
            self._required.append(required)
            self._progress.append([required.start()] * self._beam_size if required else [])

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep only these sentences."""
        self._required = [self._required[sentence] for sentence in sentences]
        self._progress = [self._progress[sentence] for sentence in sentences]

    def advance(self, parents: NDArray[np.int64], beams: Beams) -> None:
        """Extend the hypotheses `parents` (sentences, beams) with the last tokens of `beams`."""
        tokens = beams.last_tokens()
        for place, required in enumerate(self._required):
            if required:
                before, length = self._progress[place], int(beams.lengths[place]) - 1
                self._progress[place] = [
                    required.advanced(before[parent], token, length)
                    for parent, token in zip(parents[place].tolist(), tokens[place].tolist(), strict=True)
                ]

    def needed(
        self, logits: Any, lengths: Sequence[int], restriction: Restriction | None = None
    ) -> dict[int, list[dict[int, float]]]:
        """By sentence, the tokens that each hypothesis needs next, with their log-probabilities.

        `lengths` are the numbers of tokens that each sentence has.
        """
        found = {}
        for place, required in enumerate(self._required):
            if not required:
                continue
            rows = logits[place]
            rows = np.asarray(rows if isinstance(rows, np.ndarray) else rows.float().cpu(), np.float64)
            largest = rows.max(axis=1, keepdims=True)
            rows = rows - largest - np.log(np.exp(rows - largest).sum(axis=1, keepdims=True))
            free = rows.copy() if restriction else rows
            if restriction and restriction.cannot_end[place]:
                free[:, END] = NOTHING
            if restriction and restriction.repeated:
                sentences, beams, tokens = restriction.repeated
                free[beams[sentences == place], tokens[sentences == place]] = NOTHING
            found[place] = [
                {
                    token: float(row[token])
                    for token in self._tokens(required, progress, others, lengths[place])
                }
                for row, others, progress in zip(rows, free, self._progress[place], strict=True)
            ]
        return found

    def _tokens(
        self, required: RequiredPhrases, progress: Progress, row: NDArray[np.float64], length: int
    ) -> set[int]:
        """The tokens that a hypothesis needs, and behind a phrase the best of `row` that end its word."""
        tokens = required.next_tokens(progress, length)
        if progress.is_behind:
            best = np.where(required.continues, NOTHING, row)
            best[[*NEVER_PRODUCED]] = NOTHING
            first = np.argsort(-best, kind="stable")[: self._beam_size]
            tokens |= set(first[best[first] > NOTHING].tolist())
        return tokens

    def share_out(self, chosen: Chosen, needed: dict[int, list[dict[int, float]]], beams: Beams) -> Chosen:
        """Leave those of the best tokens and the `needed` ones that each sentence's `beams` have room for."""
        log_probs, tokens = chosen.log_probs.copy(), chosen.tokens.copy()
        for place, more in needed.items():
            best = zip(tokens[place].tolist(), log_probs[place].tolist(), more, strict=True)
            rows = [dict(zip(*row, strict=True)) | also for *row, also in best]
            taken = self._taken(place, rows, beams)
            log_probs[place] = NOTHING
            columns = Counter[int]()
            for _, beam, token, log_prob in taken:
                tokens[place, beam, columns[beam]] = token
                log_probs[place, beam, columns[beam]] = log_prob
                columns[beam] += 1
        return Chosen(log_probs, tokens)

    def _taken(self, place: int, rows: list[dict[int, float]], beams: Beams) -> list[_Candidate]:
        """The candidates of a sentence that its beam has room for, best first."""
        required, before = self._required[place], self._progress[place]
        assert required is not None
        scores, length = beams.scores[place].tolist(), int(beams.lengths[place])
        candidates = [
            _Candidate(score + log_prob, beam, token, log_prob)
            for beam, (score, row) in enumerate(zip(scores, rows, strict=True))
            for token, log_prob in row.items()
            if score + log_prob > NOTHING and required.allows(before[beam], token, length)
        ]
        candidates.sort(key=lambda candidate: -candidate.score)
        ended = [candidate for candidate in candidates if candidate.token == END]
        banks = defaultdict[tuple[int, int], list[_Candidate]](list)
        for candidate in candidates:
            if candidate.token != END:
                after = required.advanced(before[candidate.beam], candidate.token, length)
                num_begun = max((num for _, _, num in after.begun), default=0)
                banks[len(after.missing), -num_begun].append(candidate)
        in_turn = chain.from_iterable(zip_longest(*(bank for _, bank in sorted(banks.items()))))
        going_on = islice(filter(None, in_turn), self._beam_size)
        taken = [*ended[: self._beam_size], *going_on]
        best_first = sorted(taken, key=lambda candidate: -candidate.score)
        return best_first if self._beam_size > 1 else best_first[:1]
