"""Forced decoding: the probability of given targets, for perplexity (paper 6.2) and rescoring."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np

from allyouneed.data.batch_plans import Indices, length_batches
from allyouneed.data.vectors import with_end
from allyouneed.inference.engine import Engine
from allyouneed.symbols import END

Ids = Sequence[int]


@dataclass(frozen=True)
class TargetScore:
    """Log-probabilities of a target, given its source."""

    token_log_probs: list[float]
    """Natural logarithm of the probability of each token, the end symbol's last."""

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole target, not normalised by length."""
        return sum(self.token_log_probs)


def score_targets(
    engine: Engine,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    batch_tokens: int | None = None,
    workers: int = 1,
) -> list[TargetScore]:
    """Score each target given its source, in order.

    Args:
        engine: A model, or an ensemble.
        sources: Token ids without end symbol.
        targets: Token ids of one target per source, without end symbol.
        batch_tokens: Maximum tokens per side of a batch, padding and end symbols included; by default half
            of those that the engine searches at once.
        workers: Number of threads, each computing its own batches.
    """
    longer = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]

    def score(batch: Indices) -> list[tuple[int, TargetScore]]:
        ended = [[*targets[i], END] for i in batch]
        log_probs = engine.token_log_probs([with_end(sources[i]) for i in batch], ended).astype(np.float64)
        rows = np.split(log_probs, np.cumsum([len(ids) for ids in ended])[:-1])
        return [(i, TargetScore(row.tolist())) for i, row in zip(batch.tolist(), rows, strict=True)]

    batches = length_batches(longer, batch_tokens=batch_tokens or engine.batch_tokens // 2)
    with engine.ready(), ThreadPoolExecutor(workers) as pool:
        scores = dict(chain.from_iterable((pool.map if workers > 1 else map)(score, batches)))
    return [scores[index] for index in range(len(longer))]
