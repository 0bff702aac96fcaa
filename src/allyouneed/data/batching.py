"""Batches of sentence pairs of similar length, about 25,000 tokens of either side to an update (paper 5.1).

The pairs are cut into micro-batches, each computed in one piece, and these are dealt to global batches, one
an update, so that every global batch holds micro-batches of different lengths. The plan of an epoch depends
on nothing but the lengths, the budgets, the seed and the epoch: a position in training is a step number.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, UsageError
from allyouneed.symbols import END, PADDING, START

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """Which pairs are computed together in one epoch, and in which order; every pair occurs once.

    Micro-batch m holds the pairs `pairs[pair_bounds[m]:pair_bounds[m + 1]]`; global batch i holds the
    micro-batches `micro_batches[micro_bounds[i]:micro_bounds[i + 1]]`, longest first.
    """

    pairs: Indices
    pair_bounds: Indices
    micro_batches: Indices
    micro_bounds: Indices
    batch_target_tokens: Indices

    @property
    def num_batches(self) -> int:
        """Updates in an epoch."""
        return len(self.micro_bounds) - 1

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches in an epoch."""
        return len(self.micro_batches)

    def batch(self, index: int) -> list[Indices]:
        """The micro-batches of one global batch, each the indices of its pairs."""
        members = self.micro_batches[self.micro_bounds[index] : self.micro_bounds[index + 1]]
        return [self.pairs[self.pair_bounds[m] : self.pair_bounds[m + 1]] for m in members]

    def target_tokens(self, index: int) -> int:
        """Target tokens of one global batch, end symbols included and padding not: the loss's divisor."""
        return int(self.batch_target_tokens[index])

    @cached_property
    def hash(self) -> str:
        """The sha256 of the whole plan, in hexadecimal."""
        digest = hashlib.sha256()
        for array in (self.pairs, self.pair_bounds, self.micro_batches, self.micro_bounds):
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.astype("<i8").tobytes())
        return digest.hexdigest()


def plan_epoch(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    batch_tokens: int,
    micro_batch_tokens: int,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Plan an epoch; how many batches it has depends on the lengths and budgets only.

    Args:
        source_lengths: Tokens of each source sentence without its end symbol: integers (num_pairs,).
        target_lengths: The same of each target sentence.
        batch_tokens: What a global batch may hold of either side, padding and end symbols included.
        micro_batch_tokens: What a micro-batch may hold of either side, likewise. Where it does not divide
            `batch_tokens`, micro-batches are made smaller, so that all global batches are of one size.
        seed: Decides the order, with `epoch`.
        epoch: Counted from 0.

    Raises:
        UsageError: A pair is longer than a micro-batch, or a micro-batch larger than a batch.
        DataError: There are no pairs.
    """
    source = np.asarray(source_lengths, np.int64) + 1
    target = np.asarray(target_lengths, np.int64) + 1
    longer = np.maximum(source, target)
    _check_budgets(longer, batch_tokens, micro_batch_tokens)
    most_micro_batches = min(-(-batch_tokens // micro_batch_tokens), batch_tokens // int(longer.max()))
    budget = min(micro_batch_tokens, batch_tokens // most_micro_batches)

    bits = np.random.PCG64(np.random.SeedSequence((seed, epoch)))
    pairs = _order_by_length(source, target, bits.random_raw(len(source)))
    pair_bounds = _cut(longer[pairs], budget)
    batch_of_micro = _deal(len(pair_bounds) - 1, most_micro_batches, bits)
    micro_batches = np.argsort(batch_of_micro, kind="stable")
    micro_bounds = np.append(0, np.bincount(batch_of_micro).cumsum())
    micro_tokens = np.add.reduceat(target[pairs], pair_bounds[:-1])
    batch_target_tokens = np.add.reduceat(micro_tokens[micro_batches], micro_bounds[:-1])
    return EpochPlan(pairs, pair_bounds, micro_batches, micro_bounds, batch_target_tokens)


@dataclass(frozen=True)
class Position:
    """A place in training, as a checkpoint keeps it; equal positions are followed by the same batches."""

    epoch: int
    step: int
    """Global batches of this epoch that are done."""
    plan_hash: str


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A global batch before its tokens are read."""

    position: Position
    micro_batches: list[Indices]
    num_target_tokens: int


class BatchSchedule:
    """The global batches of a whole training run, epoch after epoch.

    Takes the arguments of `plan_epoch` without the epoch.
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        batch_tokens: int,
        micro_batch_tokens: int,
        seed: int,
    ) -> None:
        self._plan_epoch = partial(
            plan_epoch,
            source_lengths,
            target_lengths,
            batch_tokens=batch_tokens,
            micro_batch_tokens=micro_batch_tokens,
            seed=seed,
        )
        self._planned = (0, self._plan_epoch(epoch=0))

    @property
    def num_batches(self) -> int:
        """Updates in every epoch."""
        return self._planned[1].num_batches

    def plan(self, epoch: int) -> EpochPlan:
        """The plan of an epoch; the last one asked for is kept."""
        planned_epoch, plan = self._planned
        if epoch != planned_epoch:
            plan = self._plan_epoch(epoch=epoch)
            self._planned = (epoch, plan)
        return plan

    def position(self, step: int) -> Position:
        """Where training stands when `step` global batches are done."""
        epoch, step_in_epoch = divmod(step, self.num_batches)
        return Position(epoch, step_in_epoch, self.plan(epoch).hash)

    def batches_from(self, step: int) -> Iterator[PlannedBatch]:
        """The global batches that follow when `step` of them are done, without end."""
        while True:
            position = self.position(step)
            plan = self.plan(position.epoch)
            yield PlannedBatch(position, plan.batch(position.step), plan.target_tokens(position.step))
            step += 1


@dataclass(frozen=True, eq=False)
class Batch:
    """The ids of one micro-batch, int64 and padded with 0."""

    source: NDArray[np.int64]
    """Sentence, end: (rows, source_len)."""
    target_input: NDArray[np.int64]
    """Start, sentence, what the decoder reads: (rows, target_len)."""
    target_output: NDArray[np.int64]
    """Sentence, end, what the decoder is to predict: (rows, target_len)."""
    num_target_tokens: int
    """How many of `target_output` are no padding."""
    pairs: Indices
    """The pairs' indices in their store, by which a bad batch can be named: (rows,)."""


def make_batch(store: PairStore, indices: Indices) -> Batch:
    """Read the pairs at `indices` from the store and add start and end symbols."""
    target = store.gather_target(indices)
    target_lengths = store.target_lengths[indices]
    return Batch(
        source=_with_end(store.gather_source(indices), store.source_lengths[indices]),
        target_input=np.pad(target, ((0, 0), (1, 0)), constant_values=START),
        target_output=_with_end(target, target_lengths),
        num_target_tokens=int(target_lengths.sum()) + len(indices),
        pairs=indices,
    )


def length_batches(
    lengths: ArrayLike, *, batch_tokens: int | None = None, batch_size: int | None = None
) -> list[Indices]:
    """Batches for inference: indices into `lengths`, longest first, each index once.

    A batch holds at most `batch_size` sentences and, padded to its longest, at most `batch_tokens` tokens;
    a sentence longer than that is a batch alone. With neither limit all are one batch.
    """
    lengths = np.asarray(lengths, np.int64)
    order = np.argsort(-lengths, kind="stable")
    bounds = _cut(lengths[order], batch_tokens, batch_size)
    return [order[start:end] for start, end in pairwise(bounds)]


def _check_budgets(longer: NDArray[np.int64], batch_tokens: int, micro_batch_tokens: int) -> None:
    if micro_batch_tokens > batch_tokens:
        raise UsageError(
            f"training.micro_batch_tokens = {micro_batch_tokens} is more than training.batch_tokens ="
            f" {batch_tokens}; lower the first or raise the second"
        )
    if not len(longer):
        raise DataError("no sentence pairs to train on; prepare the data again")
    too_long = int((longer > micro_batch_tokens).sum())
    if too_long:
        raise UsageError(
            f"training.micro_batch_tokens = {micro_batch_tokens} is too small for {too_long} of"
            f" {len(longer)} pairs, end symbols included; raise it and training.batch_tokens"
            f" to {longer.max()} or more, or prepare the data without long pairs"
        )


def _order_by_length(
    source: NDArray[np.int64], target: NDArray[np.int64], random: NDArray[np.uint64]
) -> Indices:
    """Pairs by their longer side, longest first; then by the difference of the sides, to and fro.

    Neighbours are alike on both sides, also where the longer side changes: on Multi30k this needs half the
    padding of the plain order by (target, source). Pairs alike on both sides come in random order.
    """
    longer = np.maximum(source, target)
    to_and_fro = np.where(longer % 2, source - target, target - source)
    return np.lexsort((random, to_and_fro, -longer))


def _cut(longest_first: NDArray[np.int64], max_tokens: int | None, max_rows: int | None = None) -> Indices:
    """Bounds of runs, each as many rows as `max_tokens`, padding included, and `max_rows` allow."""
    end = len(longest_first)
    bounds = [0]
    while bounds[-1] < end:
        rows = end if max_tokens is None else max(1, max_tokens // max(1, int(longest_first[bounds[-1]])))
        bounds.append(min(end, bounds[-1] + min(rows, max_rows or end)))
    return np.array(bounds)


def _deal(num_micro_batches: int, most_each: int, bits: np.random.PCG64) -> Indices:
    """The global batch of each micro-batch, these being in order of length.

    Micro-batches of one length, as many as there are global batches, are dealt one to each at random; then
    those of the next length. The last few go to a random part of the global batches.
    """
    num_batches = -(-num_micro_batches // most_each)
    num_rounds = -(-num_micro_batches // num_batches)
    # Sorting random numbers gives a permutation that no version of numpy changes.
    deals = (
        bits.random_raw(num_rounds * num_batches)
        .reshape(num_rounds, num_batches)
        .argsort(axis=1, kind="stable")
    )
    return deals.ravel()[:num_micro_batches]


def _with_end(padded: NDArray[np.int64], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    ended = np.pad(padded, ((0, 0), (0, 1)), constant_values=PADDING)
    ended[np.arange(len(ended)), lengths] = END
    return ended
