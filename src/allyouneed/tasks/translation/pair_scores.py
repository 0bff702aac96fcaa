"""Scores given translations: pairs of texts in, log-probabilities out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from allyouneed.config.run import SearchConfig
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.errors import DataError
from allyouneed.inference.engine import Engine
from allyouneed.inference.scoring import score_targets
from allyouneed.inference.search import length_penalty
from allyouneed.tasks.requests import Answer, Failure, Id, ScoreRequest
from allyouneed.tasks.translation.outputs import END_PIECE

Encode = Callable[[str], Sequence[int]]

_WINDOW_PAIRS = 4_096


class EncodedPair(NamedTuple):
    """A request as token ids, without end symbols."""

    id: Id
    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True)
class PairScore:
    """The probability of a translation given its source."""

    log_prob: float
    """Natural logarithm of the probability of all tokens, including the end symbol."""
    score: float
    """Log-probability divided by the length penalty, by which search ranks."""
    tokens: list[str] = field(repr=False)
    """Printable pieces of the translation, and the end symbol."""
    token_log_probs: list[float] = field(repr=False)
    """Log-probability of each token given the source and the previous tokens; the sum is `log_prob`."""


def answer_pairs(
    engine: Engine,
    pairs: Iterable[EncodedPair | Failure],
    target_tokenizer: Tokenizer,
    config: SearchConfig,
    *,
    workers: int = 1,
    num_given: int = 0,
) -> Iterator[Answer[PairScore] | Failure]:
    """The score of each pair, in order and in constant memory; failures are passed on.

    The length penalty of `config` divides the scores; `workers` batches are computed at the same time. The
    first `num_given` tokens of each target are no part of its probability.
    """
    remaining = iter(pairs)
    while window := list(islice(remaining, _WINDOW_PAIRS)):  # read ahead, to be sorted by length
        there = [pair for pair in window if isinstance(pair, EncodedPair)]
        sources, targets = [pair.source for pair in there], [pair.target for pair in there]
        scores = iter(score_targets(engine, sources, targets, workers=workers))
        for pair in window:
            if isinstance(pair, Failure):
                yield pair
                continue
            score, tokens = next(scores), [*target_tokenizer.pieces(pair.target), END_PIECE][num_given:]
            log_probs = score.token_log_probs[num_given:]
            log_prob = sum(log_probs) if num_given else score.log_prob
            penalty = float(length_penalty(np.array(len(tokens) + num_given), config))
            found = PairScore(log_prob, log_prob / penalty, tokens, log_probs)
            yield Answer(pair.id, found)


def encode_pair(encode_source: Encode, encode_target: Encode, request: ScoreRequest) -> EncodedPair:
    """Encode a pair; raises DataError whose message begins with "source" or "target"."""
    ids = []
    sides = ("source", encode_source, request.source), ("target", encode_target, request.target)
    for name, encode, text in sides:
        try:
            ids.append(encode(text))
        except DataError as error:
            raise DataError(f"{name}: {error.messages[0]}", label=error.label) from None
    return EncodedPair(request.id, *ids)
