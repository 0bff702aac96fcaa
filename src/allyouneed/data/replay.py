"""Global batches of which a share is replayed: its target tokens come from other data.

The other pairs follow each other in random order, pass after pass. Each batch takes as many of them as go
with its own target tokens, counted from the start of training. So a step number tells which ones, as it does
for the run's own pairs, and the share holds in every batch to within a pair.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from allyouneed.data.batch_plans import Indices, PlannedBatch, Position, cut, order_by_length
from allyouneed.data.schedule import BatchSchedule
from allyouneed.errors import UsageError

_MICRO_BATCHES = 4
"""About the number of micro-batches of a batch that are replayed. Their pairs have all lengths, so fewer have
more padding: on captions 45% where a budget allows two, and 14% with four or five."""
_OTHER_SEEDS = 1 << 63
"""Added to the seed of the replayed pairs: settings have smaller seeds, so no order is drawn twice."""


@dataclass(frozen=True, eq=False)
class _Pass:
    """One pass over the replayed pairs."""

    pairs: Indices
    """The pairs, in random order."""
    starts: Indices
    """Number of target tokens of the pass before each of them."""

    @cached_property
    def hash(self) -> bytes:
        return hashlib.sha256(b"".join(a.astype("<i8").tobytes() for a in (self.pairs, self.starts))).digest()


class ReplaySchedule:
    """The global batches of a run that replays other data; an epoch is a pass over its own pairs.

    Args:
        source_lengths: As for `BatchSchedule`, like those that are not listed here.
        num_replayed: Number of pairs, the last ones, to replay; the others are the run's own.
        share: Share of the target tokens of a batch that is replayed, between 0 and 1.
        batch_tokens: As for `BatchSchedule`, without the padding of replayed pairs.

    Raises:
        UsageError: A pair is longer than a micro-batch, or than the part of a batch that is not replayed.
        DataError: There are no pairs.
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        num_replayed: int,
        share: float,
        batch_tokens: int,
        micro_batch_tokens: int,
        seed: int,
        block_pairs: int = 0,
    ) -> None:
        self._source, self._target = (
            np.asarray(side, np.int64) + 1 for side in (source_lengths, target_lengths)
        )
        self._first = len(self._source) - num_replayed
        self._ratio, self._seed = share / (1 - share), seed
        self._longer = np.maximum(self._source, self._target)
        replayed_tokens = round(share * batch_tokens)
        own_tokens = batch_tokens - replayed_tokens
        self._check_budgets(own_tokens, share, batch_tokens, micro_batch_tokens)
        longest = int(self._longer[self._first :].max())
        self._micro_batch_tokens = min(micro_batch_tokens, max(longest, replayed_tokens // _MICRO_BATCHES))
        self._own = BatchSchedule(
            self._source[: self._first] - 1,
            self._target[: self._first] - 1,
            batch_tokens=own_tokens,
            micro_batch_tokens=min(micro_batch_tokens, own_tokens),
            seed=seed,
            block_pairs=block_pairs,
        )
        self._own_tokens, self._pass_tokens = (
            int(part.sum()) for part in np.split(self._target, [self._first])
        )
        self._pass = lru_cache(maxsize=2)(self._draw)  # a batch may end one pass and begin the next

    @property
    def num_batches(self) -> int:
        """Number of updates per epoch."""
        return self._own.num_batches

    def position(self, step: int) -> Position:
        """The position after `step` global batches."""
        own = self._own.position(step)
        replayed = self._pass(self._to_replay(self._own_before(own)) // self._pass_tokens)
        return Position(
            own.epoch, own.step, hashlib.sha256(own.plan_hash.encode() + replayed.hash).hexdigest()
        )

    def batches_from(self, step: int) -> Iterator[PlannedBatch]:
        """The global batches after the first `step`, without end."""
        for own in self._own.batches_from(step):
            before = self._own_before(own.position)
            pairs = self._between(self._to_replay(before), self._to_replay(before + own.num_target_tokens))
            yield PlannedBatch(
                self.position(step),
                own.micro_batches + self._micro_batches(pairs),
                own.num_target_tokens + int(self._target[pairs].sum()),
            )
            step += 1

    def _own_before(self, own: Position) -> int:
        """Number of target tokens of the run's own pairs before a position."""
        return own.epoch * self._own_tokens + self._own.target_tokens_before(own)

    def _to_replay(self, own_tokens: int) -> int:
        """Number of target tokens to replay in company of so many others."""
        return int(self._ratio * own_tokens)

    def _between(self, start: int, end: int) -> Indices:
        """The replayed pairs that begin at these target tokens, counted over all passes."""
        passes = range(start // self._pass_tokens, -(-end // self._pass_tokens))
        found = [np.empty(0, np.int64)]
        for number in passes:
            bounds = np.array((start, end)) - number * self._pass_tokens
            found.append(self._pass(number).pairs[slice(*np.searchsorted(self._pass(number).starts, bounds))])
        return np.concatenate(found)

    def _draw(self, number: int) -> _Pass:
        bits = np.random.PCG64(np.random.SeedSequence((self._seed + _OTHER_SEEDS, number)))
        num_pairs = len(self._target) - self._first
        pairs = self._first + bits.random_raw(num_pairs).argsort(kind="stable")
        tokens = self._target[pairs]
        return _Pass(pairs, tokens.cumsum() - tokens)

    def _micro_batches(self, pairs: Indices) -> list[Indices]:
        """Divide pairs among micro-batches of similar lengths, longest first."""
        order = order_by_length(
            self._source[pairs], self._target[pairs], np.arange(len(pairs), dtype=np.uint64)
        )
        longest_first = pairs[order]
        bounds = cut(self._longer[longest_first], self._micro_batch_tokens)
        return [longest_first[start:end] for start, end in pairwise(bounds)]

    def _check_budgets(
        self, own_tokens: int, share: float, batch_tokens: int, micro_batch_tokens: int
    ) -> None:
        own, replayed = np.split(self._longer, [self._first])
        if own.max(initial=0) > own_tokens:
            raise UsageError(
                f"training.replay_share = {share}: leaves {own_tokens} tokens of training.batch_tokens ="
                f" {batch_tokens} to the pairs that are not replayed, but one has {own.max()}, end symbol"
                " included; raise training.batch_tokens, or lower the share"
            )
        if too_long := int((replayed > micro_batch_tokens).sum()):
            raise UsageError(
                f"training.micro_batch_tokens = {micro_batch_tokens} is too small for {too_long} of"
                f" {len(replayed)} replayed pairs, end symbols included; raise it to {replayed.max()} or"
                " more, or prepare their data without long pairs"
            )
