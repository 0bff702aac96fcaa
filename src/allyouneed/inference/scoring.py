"""Forced decoding: how probable a model finds given targets, for perplexity (paper 6.2) and rescoring."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from allyouneed.data.batching import Indices, length_batches
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.workers import ready_to_decode, run_in_threads
from allyouneed.symbols import END

DEFAULT_BATCH_TOKENS = 4_096
_WINDOW_PAIRS = 4_096

Ids = Sequence[int]


@dataclass(frozen=True)
class TargetScore:
    """How probable a target is, given its source."""

    token_log_probs: list[float]
    """Natural logarithm of the probability of each token, the end symbol's last."""

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole target, not normalised."""
        return sum(self.token_log_probs)


def score_targets(
    engine: Engine | Ensemble,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    workers: int = 1,
) -> list[TargetScore]:
    """The log-probability of each target given its source, in order.

    Args:
        engine: The model, or several.
        sources: Token ids without end symbol.
        targets: One target per source, without end symbol.
        batch_tokens: Tokens of either side of a batch, padding and end symbols included.
        workers: How many batches are computed at once, each by a thread of its own.
    """
    longer = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    scores: dict[int, TargetScore] = {}

    def score(batch: Indices) -> None:
        ended = [[*targets[i], END] for i in batch]
        with torch.inference_mode():  # of this thread
            log_probs = engine.token_log_probs([[*sources[i], END] for i in batch], ended)
        rows = log_probs.cpu().double().split([len(ids) for ids in ended])
        scores.update((i, TargetScore(row.tolist())) for i, row in zip(batch.tolist(), rows, strict=True))

    waiting = deque(length_batches(longer, batch_tokens=batch_tokens))

    def work(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                batch = waiting.popleft()
            except IndexError:
                return
            score(batch)

    with ready_to_decode(engine):
        run_in_threads(work, workers)
    return [scores[index] for index in range(len(longer))]


def score_pairs(
    engine: Engine | Ensemble,
    pairs: Iterable[tuple[Ids, Ids] | None],
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    workers: int = 1,
) -> Iterator[TargetScore | None]:
    """The score of each pair of a source and a target, as of `score_targets`, in constant memory.

    Args:
        engine: The model, or several.
        pairs: Read some thousands ahead and sorted by length; None takes the place of one that has no score.
        batch_tokens: The same as for `score_targets`.
        workers: The same as for `score_targets`.
    """
    remaining = iter(pairs)
    while window := list(islice(remaining, _WINDOW_PAIRS)):
        there = [pair for pair in window if pair is not None]
        sources, targets = [source for source, _ in there], [target for _, target in there]
        scores = iter(score_targets(engine, sources, targets, batch_tokens=batch_tokens, workers=workers))
        yield from (None if pair is None else next(scores) for pair in window)
