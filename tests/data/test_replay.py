"""A share of every batch is replayed: which pairs these are follows from the step alone."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.test_batch_plans import Lengths, caption_like_lengths
from tests.stores import write_store

from allyouneed.data.batch_plans import PlannedBatch
from allyouneed.data.schedule import ReplaySchedule
from allyouneed.data.store import PairStore
from allyouneed.errors import UsageError

BATCH, MICRO_BATCH = 400, 100

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60)
shares = st.floats(0.01, 0.9)
few = settings(max_examples=30)


def schedule(own: Lengths, replayed: Lengths, share: float, **others: Any) -> ReplaySchedule:
    source, target = zip(*own, *replayed, strict=True)
    budgets = {"batch_tokens": BATCH, "micro_batch_tokens": MICRO_BATCH, "seed": 5} | others
    return ReplaySchedule(source, target, num_replayed=len(replayed), share=share, **budgets)


def first_batches(run: ReplaySchedule, number: int) -> list[PlannedBatch]:
    return list(itertools.islice(run.batches_from(0), number))


def parted(batch: PlannedBatch, num_own: int) -> tuple[list[int], list[int]]:
    """The run's own pairs of a batch, and the replayed ones."""
    pairs = [pair for micro in batch.micro_batches for pair in micro.tolist()]
    return [pair for pair in pairs if pair < num_own], [pair for pair in pairs if pair >= num_own]


@few
@given(lengths, lengths, shares)
def test_the_share_holds_up_to_every_batch_to_within_a_pair(
    own: Lengths, replayed: Lengths, share: float
) -> None:
    tokens = [target + 1 for _, target in (*own, *replayed)]
    num_own_tokens = num_replayed_tokens = 0
    for batch in first_batches(schedule(own, replayed, share), 12):
        of_run, of_others = parted(batch, len(own))
        num_own_tokens += sum(tokens[pair] for pair in of_run)
        num_replayed_tokens += sum(tokens[pair] for pair in of_others)
        assert batch.num_target_tokens == sum(tokens[pair] for pair in (*of_run, *of_others))
        wanted = num_own_tokens * share / (1 - share)
        assert wanted - 1 <= num_replayed_tokens < wanted + max(tokens)


@few
@given(lengths, lengths, shares)
def test_own_pairs_occur_once_an_epoch_and_replayed_ones_once_before_any_occurs_again(
    own: Lengths, replayed: Lengths, share: float
) -> None:
    run = schedule(own, replayed, share)
    found = [parted(batch, len(own)) for batch in first_batches(run, 3 * run.num_batches)]
    for epoch in range(3):
        batches = found[epoch * run.num_batches : (epoch + 1) * run.num_batches]
        assert sorted(pair for of_run, _ in batches for pair in of_run) == list(range(len(own)))
    counts = np.zeros(len(own) + len(replayed), int)
    for _, of_others in found:
        np.add.at(counts, of_others, 1)
        # A batch may end one pass and begin the next.
        assert np.ptp(counts[len(own) :]) <= 1


@few
@given(lengths, lengths, shares)
def test_micro_batches_hold_pairs_of_one_kind_and_keep_within_their_budget(
    own: Lengths, replayed: Lengths, share: float
) -> None:
    both = (*own, *replayed)
    for batch in first_batches(schedule(own, replayed, share), 4):
        for micro in batch.micro_batches:
            assert len({pair < len(own) for pair in micro.tolist()}) == 1
            assert len(micro) * (max(max(both[pair]) for pair in micro) + 1) <= MICRO_BATCH


@few
@given(lengths, lengths, shares, st.integers(0, 20))
def test_a_step_has_the_same_batch_whether_it_is_reached_or_begun_with(
    own: Lengths, replayed: Lengths, share: float, step: int
) -> None:
    *_, reached = first_batches(schedule(own, replayed, share), step + 1)
    run = schedule(own, replayed, share)
    begun = next(run.batches_from(step))
    assert [micro.tolist() for micro in begun.micro_batches] == [
        micro.tolist() for micro in reached.micro_batches
    ]
    assert begun.position == reached.position == run.position(step)


def test_batches_are_little_longer_than_their_budget_by_the_padding_of_replayed_pairs() -> None:
    own, replayed = caption_like_lengths(4_000), caption_like_lengths(4_000)
    longer = np.array([max(pair) + 1 for pair in (*own, *replayed)])
    run = schedule(own, replayed, 0.2, batch_tokens=4_096, micro_batch_tokens=1_024)
    computed = [
        sum(len(micro) * longer[micro].max() for micro in batch.micro_batches)
        for batch in first_batches(run, run.num_batches)
    ]
    assert max(computed) < 1.05 * 4_096
    assert sum(computed) / len(computed) < 4_096


def test_another_seed_share_or_data_gives_other_batches_and_positions() -> None:
    own, replayed = caption_like_lengths(300), caption_like_lengths(500)
    runs = [
        schedule(own, replayed, 0.2),
        schedule(own, replayed, 0.2, seed=6),
        schedule(own, replayed, 0.5),
        schedule(own, replayed[::-1], 0.2),
    ]
    batches = [first_batches(run, 1)[0] for run in runs]
    assert len({str(batch.micro_batches) for batch in batches}) == len(runs)
    assert len({batch.position.plan_hash for batch in batches}) == len(runs)


def test_data_that_are_replayed_to_themselves_come_in_another_order() -> None:
    pairs = [(4, 4)] * 400
    run = schedule(pairs, pairs, 0.5)
    of_run, of_others = parted(first_batches(run, 1)[0], len(pairs))
    assert len(set(of_run) & {pair - len(pairs) for pair in of_others}) < len(of_run) / 2


@pytest.mark.parametrize(
    ("own", "replayed", "share", "message"),
    [
        (
            [(9, 250)],
            [(3, 3)],
            0.5,
            "training.replay_share = 0.5: leaves 200 tokens of training.batch_tokens = 400 to the pairs that "
            "are not replayed, but one has 251, end symbol included; raise training.batch_tokens, or lower",
        ),
        (
            [(3, 3)],
            [(100, 9), (9, 120), (3, 3)],
            0.2,
            "training.micro_batch_tokens = 100 is too small for 2 of 3 replayed pairs, end symbols included; "
            "raise it to 121 or more, or prepare their data without long pairs",
        ),
        ([(150, 9)], [(3, 3)], 0.2, "training.micro_batch_tokens = 100 is too small for 1 of 1 pairs"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(
    own: Lengths, replayed: Lengths, share: float, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        schedule(own, replayed, share)
    assert message in error.value.messages[0]


def test_a_store_with_replayed_pairs_reads_those_of_both(tmp_path: Path) -> None:
    own = [([5, 6], [7], 1), ([8], [9, 10, 11], 3)]
    replayed = [([300], [301, 302], 2), ([12, 13, 14], [15], 4), ([16], [17], 9)]
    write_store(tmp_path / "own", own, vocabulary_size=70_000)
    write_store(tmp_path / "replayed", replayed, vocabulary_size=1_000, shard_tokens=2)
    alone = PairStore(tmp_path / "own")
    joined = alone.with_replayed(PairStore(tmp_path / "replayed"))
    assert (alone.num_pairs, alone.num_replayed) == (2, 0)
    assert (joined.num_pairs, joined.num_replayed) == (5, 3)
    for index, (source, target, line) in enumerate([*own, *replayed]):
        assert (joined.source.sentence(index).tolist(), joined.target.sentence(index).tolist()) == (
            source,
            target,
        )
        assert joined.line_numbers[index] == line
    together = np.array([4, 0, 3, 1, 2])
    assert joined.source.gather(together).tolist() == [
        [16, 0, 0],
        [5, 6, 0],
        [12, 13, 14],
        [8, 0, 0],
        [300, 0, 0],
    ]
    assert joined.target_lengths[together].tolist() == [1, 1, 1, 3, 2]
    assert [joined.text_of(index) for index in (1, 2)] == ["training text", "replayed text"]
