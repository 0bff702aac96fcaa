"""The order of batches over a whole run. A large corpus is planned block by block.

A block consists of runs of consecutive pairs from random places of the corpus, always the same ones. An
epoch goes through all blocks, in an order of its own; the plan of a block is a function of seed, epoch and
block. So planning takes time and memory for one block, and a step number is enough to resume."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.batch_plans import (
    EpochPlan,
    Indices,
    PlannedBatch,
    Position,
    check_budgets,
    cut,
    num_batches_of,
    order_by_length,
    plan_epoch,
)
from allyouneed.errors import UsageError


def mixed(numbers: ArrayLike) -> NDArray[np.uint64]:
    """A number from 0 to 2**64 - 1 for each number: one step of SplitMix64 (Steele et al., 2014)."""
    found = np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    result: NDArray[np.uint64] = found ^ (found >> np.uint64(31))
    return result


RUN_PAIRS = 1_024
"""Number of consecutive pairs that stay together in a block."""
_OF_RUNS = 1 << 62
"""Added to the seed of the runs, so that no order is drawn twice."""
_MICRO_BATCHES = 4
"""About the number of micro-batches of a batch that are replayed. Their pairs have all lengths, so fewer have
more padding: on captions 45% where a budget allows two, and 14% with four or five."""
_OTHER_SEEDS = 1 << 63
"""Added to the seed of the replayed pairs: settings have smaller seeds, so no order is drawn twice."""


class BatchSchedule:
    """The global batches of a training run, epoch after epoch.

    The arguments are those of `plan_epoch`, and `block_pairs`: about the number of pairs of a block; 0
    plans an epoch at once, as do corpora of less than one and a half blocks.

    Raises:
        UsageError, DataError: See `plan_epoch`.
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        batch_tokens: int,
        micro_batch_tokens: int,
        seed: int,
        block_pairs: int = 0,
    ) -> None:
        self._source, self._target = np.asarray(source_lengths), np.asarray(target_lengths)
        self._budgets = {"batch_tokens": batch_tokens, "micro_batch_tokens": micro_batch_tokens}
        self._seed = seed
        num_pairs = len(self._source)
        bits = np.random.PCG64(np.random.SeedSequence((seed + _OF_RUNS, num_pairs)))
        self._runs = bits.random_raw(-(-num_pairs // RUN_PAIRS)).argsort(kind="stable")
        wanted = round(num_pairs / block_pairs) if block_pairs else 1
        self._num_blocks = max(1, min(wanted, len(self._runs)))  # a run at least in each
        self._plan = lru_cache(maxsize=2)(self._plan_block)  # at the end of a block, the next one's, too
        self._order = lru_cache(maxsize=2)(self._draw_order)
        self._num_batches, self._num_target_tokens = self._count()

    @property
    def num_batches(self) -> int:
        """Number of updates per epoch."""
        return int(self._num_batches.sum())

    def position(self, step: int) -> Position:
        """The position after `step` global batches."""
        epoch, step_in_epoch = divmod(step, self.num_batches)
        place, _ = self._place(epoch, step_in_epoch)
        return Position(epoch, step_in_epoch, self._plan(epoch, int(self._order(epoch)[place])).hash)

    def batches_from(self, step: int) -> Iterator[PlannedBatch]:
        """The global batches after the first `step`, without end."""
        while True:
            position = self.position(step)
            place, index = self._place(position.epoch, position.step)
            plan = self._plan(position.epoch, int(self._order(position.epoch)[place]))
            yield PlannedBatch(position, plan.batch(index), plan.target_tokens(index))
            step += 1

    def target_tokens_before(self, position: Position) -> int:
        """Number of target tokens of an epoch before a position, with end symbols."""
        place, index = self._place(position.epoch, position.step)
        order = self._order(position.epoch)
        in_block = self._plan(position.epoch, int(order[place])).batch_target_tokens[:index]
        return int(self._num_target_tokens[order[:place]].sum() + in_block.sum())

    def _count(self) -> tuple[Indices, Indices]:
        if self._num_blocks == 1:
            plan = self._plan(0, 0)
            return np.array([plan.num_batches]), np.array([plan.batch_target_tokens.sum()])
        check_budgets(np.maximum(self._source, self._target) + 1, **self._budgets)
        num_batches, num_tokens = [], []
        for block in range(self._num_blocks):
            pairs = self._pairs_of(block)
            source, target = self._source[pairs], self._target[pairs]
            num_batches.append(num_batches_of(source, target, **self._budgets))
            num_tokens.append(int(target.sum(dtype=np.int64)) + len(pairs))
        return np.array(num_batches), np.array(num_tokens)

    def _place(self, epoch: int, step: int) -> tuple[int, int]:
        """The place in the order of blocks, and the step within that block, of a step of an epoch."""
        ends = self._num_batches[self._order(epoch)].cumsum()
        place = int(np.searchsorted(ends, step, side="right"))
        return place, step - int(ends[place - 1] if place else 0)

    def _draw_order(self, epoch: int) -> Indices:
        bits = np.random.PCG64(np.random.SeedSequence((self._seed, epoch, self._num_blocks)))
        return bits.random_raw(self._num_blocks).argsort(kind="stable")

    def _plan_block(self, epoch: int, block: int) -> EpochPlan:
        if self._num_blocks == 1:
            return plan_epoch(self._source, self._target, seed=self._seed, epoch=epoch, **self._budgets)
        pairs, seed = self._pairs_of(block), self._seed
        lengths = self._source[pairs], self._target[pairs]
        return plan_epoch(*lengths, seed=seed, epoch=epoch, block=block, **self._budgets).of(pairs)

    def _pairs_of(self, block: int) -> Indices:
        runs = np.sort(self._runs[block :: self._num_blocks])
        pairs = (runs[:, None] * RUN_PAIRS + np.arange(RUN_PAIRS)).ravel()
        return pairs[pairs < len(self._source)]


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
    """The global batches of a run of which a share is replayed: its target tokens come from other data.

    An epoch is a pass over the run's own pairs. The other pairs follow each other in random order, pass after
    pass. Each batch takes as many of them as go with its own target tokens, counted from the start of
    training. So a step number tells which ones, and the share holds in every batch to within a pair.

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
