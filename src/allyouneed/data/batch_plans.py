"""Batches of sentence pairs of similar length: about 25,000 source and target tokens per update (paper 5.1).

Pairs are grouped into micro-batches, each computed in one piece. Each global batch, one per update, gets
micro-batches of different lengths. The plan of an epoch depends only on the lengths, the budgets, the seed
and the epoch, so a step number is enough to resume training.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, UsageError
from allyouneed.symbols import END, PADDING, START

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """The batches of one epoch, in order; every pair occurs once.

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
        """Number of updates in the epoch."""
        return len(self.micro_bounds) - 1

    def batch(self, index: int) -> list[Indices]:
        """The micro-batches of one global batch, as indices of pairs."""
        members = self.micro_batches[self.micro_bounds[index] : self.micro_bounds[index + 1]]
        return [self.pairs[self.pair_bounds[m] : self.pair_bounds[m + 1]] for m in members]

    def of(self, pairs: Indices) -> "EpochPlan":
        """The plan for pairs that were planned under other numbers: pair i is `pairs[i]`."""
        return replace(self, pairs=pairs[self.pairs])

    def target_tokens(self, index: int) -> int:
        """Number of target tokens of one global batch, with end symbols but not padding; divides the loss."""
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
    block: int | None = None,
) -> EpochPlan:
    """Plan an epoch, or a block of one. The number of batches depends on the lengths and budgets only.

    Args:
        source_lengths: Number of tokens per source sentence, without the end symbol: integers (num_pairs,).
        target_lengths: The same of the target sentences.
        batch_tokens: Maximum tokens per side of a global batch, including padding and end symbols.
        micro_batch_tokens: The same of a micro-batch. If it does not divide `batch_tokens`, micro-batches are
            made smaller so that global batches are equal.
        seed: Seed of the order, together with `epoch`.
        epoch: Number of the epoch, from 0.
        block: Number of the block, if these pairs are one of several.

    Raises:
        UsageError: A pair is longer than a micro-batch, or a micro-batch larger than a batch.
        DataError: There are no pairs.
    """
    source = np.asarray(source_lengths, np.int64) + 1
    target = np.asarray(target_lengths, np.int64) + 1
    longer = np.maximum(source, target)
    check_budgets(longer, batch_tokens, micro_batch_tokens)
    most_micro_batches, budget = _divided(int(longer.max()), batch_tokens, micro_batch_tokens)

    bits = np.random.PCG64(np.random.SeedSequence((seed, epoch) if block is None else (seed, epoch, block)))
    pairs = order_by_length(source, target, bits.random_raw(len(source)))
    pair_bounds = cut(longer[pairs], budget)
    batch_of_micro = _deal(len(pair_bounds) - 1, most_micro_batches, bits)
    micro_batches = np.argsort(batch_of_micro, kind="stable")
    micro_bounds = np.append(0, np.bincount(batch_of_micro).cumsum())
    micro_tokens = np.add.reduceat(target[pairs], pair_bounds[:-1])
    batch_target_tokens = np.add.reduceat(micro_tokens[micro_batches], micro_bounds[:-1])
    return EpochPlan(pairs, pair_bounds, micro_batches, micro_bounds, batch_target_tokens)


def num_batches_of(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    *,
    batch_tokens: int,
    micro_batch_tokens: int,
) -> int:
    """The number of batches of `plan_epoch`, without a plan."""
    longest_first = np.sort(np.maximum(source_lengths, target_lengths))[::-1] + 1
    most_micro_batches, budget = _divided(int(longest_first[0]), batch_tokens, micro_batch_tokens)
    return -(-(len(cut(longest_first, budget)) - 1) // most_micro_batches)


@dataclass(frozen=True)
class Position:
    """A place in training, saved in checkpoints; the same batches follow equal positions."""

    epoch: int
    step: int
    """Number of completed global batches in this epoch."""
    plan_hash: str


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A global batch whose tokens have not been read yet."""

    position: Position
    micro_batches: list[Indices]
    num_target_tokens: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Token ids of one micro-batch, padded with 0."""

    source: NDArray[Any]
    """The sentence and the end symbol: (rows, source_len); or vectors (rows, source_len, features), padded
    with NaN."""
    target_input: NDArray[np.int64]
    """Input of the decoder, the start symbol and the sentence: (rows, target_len)."""
    target_output: NDArray[np.int64]
    """Expected output of the decoder, the sentence and the end symbol: (rows, target_len)."""
    num_target_tokens: int
    """Number of tokens in `target_output` that are not padding."""
    pairs: Indices
    """Indices of the pairs in their store, which identify a bad batch in messages: (rows,)."""
    guide: NDArray[np.float32] | None = None
    """Where each expected token comes from, if a head learns it: (rows, target_len, source_len)."""


def make_batch(store: PairStore, indices: Indices) -> Batch:
    """Read the pairs at `indices` from the store and add start and end symbols."""
    target = store.target.gather(indices)
    target_lengths = store.target_lengths[indices]
    source = _with_end(store.source.gather(indices), store.source_lengths[indices])
    target_output = _with_end(target, target_lengths)
    return Batch(
        source=source,
        target_input=np.pad(target, ((0, 0), (1, 0)), constant_values=START),
        target_output=target_output,
        num_target_tokens=int(target_lengths.sum()) + len(indices),
        pairs=indices,
        guide=None if store.guide is None else store.guide(source, target_output),
    )


def padding_share(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], batches: Sequence[Indices]
) -> float:
    """The share of padding among the tokens of both sides that are computed, end symbols included.

    Lengths are without end symbols: (num_pairs,). Each of `batches` holds the indices of pairs that are
    padded to one length.
    """
    pairs, rows = np.concatenate(batches), np.array([len(batch) for batch in batches])
    first = rows.cumsum() - rows
    sides = [lengths[pairs].astype(np.int64) + 1 for lengths in (source_lengths, target_lengths)]
    computed = sum(rows @ np.maximum.reduceat(side, first) for side in sides)
    return 1 - float(sum(side.sum() for side in sides) / computed)


def length_batches(
    lengths: ArrayLike, *, batch_tokens: int | None = None, batch_size: int | None = None
) -> list[Indices]:
    """Batches for inference: indices into `lengths`, longest first, each index once.

    A batch holds at most `batch_size` sentences and `batch_tokens` tokens, including padding; a longer
    sentence is a batch of its own. Without limits, everything is one batch.
    """
    lengths = np.asarray(lengths, np.int64)
    order = np.argsort(-lengths, kind="stable")
    bounds = cut(lengths[order], batch_tokens, batch_size)
    return [order[start:end] for start, end in pairwise(bounds)]


def _divided(longest: int, batch_tokens: int, micro_batch_tokens: int) -> tuple[int, int]:
    """The most micro-batches of a batch, and the most tokens of each."""
    most_micro_batches = min(-(-batch_tokens // micro_batch_tokens), batch_tokens // longest)
    return most_micro_batches, min(micro_batch_tokens, batch_tokens // most_micro_batches)


def check_budgets(longer: NDArray[np.integer], batch_tokens: int, micro_batch_tokens: int) -> None:
    """Raise UsageError if a pair exceeds a micro-batch, or this a batch; DataError without pairs."""
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


def order_by_length(
    source: NDArray[np.int64], target: NDArray[np.int64], random: NDArray[np.uint64]
) -> Indices:
    """Sort pairs by their longer side, longest first, then by the difference of the sides, to and fro.

    Neighbours have similar lengths on both sides, even where the longer side changes: on Multi30k this needs
    half the padding of sorting by (target, source). Pairs of equal lengths come in random order.
    """
    longer = np.maximum(source, target)
    to_and_fro = np.where(longer % 2, source - target, target - source)
    return np.lexsort((random, to_and_fro, -longer))


def cut(longest_first: NDArray[np.int64], max_tokens: int | None, max_rows: int | None = None) -> Indices:
    """Bounds of batches, each with as many rows as `max_tokens` (including padding) and `max_rows` allow."""
    end = len(longest_first)
    bounds = [0]
    while bounds[-1] < end:
        rows = end if max_tokens is None else max(1, max_tokens // max(1, int(longest_first[bounds[-1]])))
        bounds.append(min(end, bounds[-1] + min(rows, max_rows or end)))
    return np.array(bounds)


def _deal(num_micro_batches: int, most_each: int, bits: np.random.PCG64) -> Indices:
    """Assign each micro-batch, in order of length, to a global batch.

    Each round deals the next micro-batches, of similar length, to all global batches at random, one each.
    The last round may reach only some of the global batches.
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


def _with_end(padded: NDArray[Any], lengths: NDArray[np.integer]) -> NDArray[Any]:
    if padded.ndim > 2:  # vectors have no end symbol
        return padded
    ended = np.pad(padded, ((0, 0), (0, 1)), constant_values=PADDING)
    ended[np.arange(len(ended)), lengths] = END
    return ended
