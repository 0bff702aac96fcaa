"""The order of batches over a whole run. A large corpus is planned block by block.

A block consists of runs of consecutive pairs from random places of the corpus, always the same ones. An
epoch goes through all blocks, in an order of its own; the plan of a block is a function of seed, epoch and
block. So planning takes time and memory for one block, and a step number is enough to resume."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.batch_plans import (
    EpochPlan,
    Indices,
    PlannedBatch,
    Position,
    check_budgets,
    num_batches_of,
    plan_epoch,
)


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
