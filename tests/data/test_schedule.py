"""A corpus that is planned block by block: every epoch has every pair once, and any step can be resumed."""

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from allyouneed.data import schedule as module
from allyouneed.data.batch_plans import PlannedBatch, num_batches_of, plan_epoch
from allyouneed.data.schedule import BatchSchedule, ReplaySchedule
from allyouneed.errors import UsageError

NUM_PAIRS, BUDGETS = 5_000, {"batch_tokens": 900, "micro_batch_tokens": 250}


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUN_PAIRS", 30)


@pytest.fixture(scope="module")
def lengths() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(1)
    source = draw.integers(1, 40, NUM_PAIRS, dtype=np.int32)
    return source, (source + draw.integers(-1, 9, NUM_PAIRS, dtype=np.int32)).clip(1)


def schedule(lengths: tuple[Any, Any], block_pairs: int = 1_000, seed: int = 3) -> BatchSchedule:
    return BatchSchedule(*lengths, **BUDGETS, seed=seed, block_pairs=block_pairs)


def pairs_of(batches: list[PlannedBatch]) -> list[int]:
    return [int(pair) for batch in batches for micro in batch.micro_batches for pair in micro]


@pytest.mark.parametrize("block_pairs", [300, 1_000, 3_000])
def test_every_epoch_has_every_pair_once_in_another_order(lengths: tuple[Any, Any], block_pairs: int) -> None:
    run = schedule(lengths, block_pairs)
    batches = [*islice(run.batches_from(0), 2 * run.num_batches)]
    first, second = (pairs_of(part) for part in (batches[: run.num_batches], batches[run.num_batches :]))
    assert sorted(first) == sorted(second) == list(range(NUM_PAIRS))
    assert first != second
    assert [batch.position.epoch for batch in batches] == sorted([0, 1] * run.num_batches)
    for batch in batches:
        tokens = [max(side[micro].max() for side in lengths) + 1 for micro in batch.micro_batches]
        sizes = [size * len(micro) for size, micro in zip(tokens, batch.micro_batches, strict=True)]
        assert max(sizes) <= BUDGETS["micro_batch_tokens"]
        assert sum(sizes) <= BUDGETS["batch_tokens"]
        assert batch.num_target_tokens == sum((lengths[1][m] + 1).sum() for m in batch.micro_batches)


def test_a_run_that_is_resumed_at_any_step_goes_on_as_the_one_that_was_not(lengths: tuple[Any, Any]) -> None:
    run = schedule(lengths)
    batches = [*islice(run.batches_from(0), 2 * run.num_batches + 3)]
    for step in (*range(0, len(batches) - 2, 7), run.num_batches - 1, run.num_batches):
        for found, expected in zip(
            islice(schedule(lengths).batches_from(step), 2), batches[step : step + 2], strict=True
        ):
            assert found.position == expected.position
            assert pairs_of([found]) == pairs_of([expected])
    tokens = np.cumsum([0, *(batch.num_target_tokens for batch in batches[: run.num_batches])])
    for batch, before in zip(batches[: run.num_batches], tokens, strict=False):
        assert run.target_tokens_before(batch.position) == before


def test_blocks_hold_pairs_from_everywhere_and_come_one_after_another(lengths: tuple[Any, Any]) -> None:
    run = schedule(lengths)
    hashes = [batch.position.plan_hash for batch in islice(run.batches_from(0), run.num_batches)]
    changes = sum(one != other for one, other in pairwise(hashes))
    assert (len(set(hashes)), changes) == (5, 4)
    of_first = [b for b in islice(run.batches_from(0), run.num_batches) if b.position.plan_hash == hashes[0]]
    pairs = np.array(pairs_of(of_first))
    assert abs(len(pairs) - 1_000) <= 30
    assert np.histogram(pairs, 5, (0, NUM_PAIRS))[0].min() > 50
    assert abs(np.corrcoef(pairs, np.arange(len(pairs)))[0, 1]) < 0.2


@pytest.mark.parametrize("block_pairs", [1, 100, 600, 1_025, 2_000])
def test_blocks_have_a_run_at_least(
    lengths: tuple[Any, Any], block_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUN_PAIRS", 1_024)
    run = schedule(lengths, block_pairs)
    assert sorted(pairs_of([*islice(run.batches_from(0), run.num_batches)])) == list(range(NUM_PAIRS))


def test_a_small_corpus_is_planned_at_once_as_ever(lengths: tuple[Any, Any]) -> None:
    plan = plan_epoch(*lengths, **BUDGETS, seed=3, epoch=1)
    for run in (schedule(lengths, 0), schedule(lengths, 3_400)):
        found = [*islice(run.batches_from(run.num_batches), run.num_batches)]
        assert {batch.position.plan_hash for batch in found} == {plan.hash}
        assert (
            pairs_of(found)
            == np.concatenate([p for i in range(plan.num_batches) for p in plan.batch(i)]).tolist()
        )


def test_the_number_of_batches_is_known_without_a_plan(lengths: tuple[Any, Any]) -> None:
    draw = np.random.default_rng(2)
    for size in (1, 2, 50, 700):
        which = draw.integers(0, NUM_PAIRS, size)
        part = lengths[0][which], lengths[1][which]
        planned = plan_epoch(*part, **BUDGETS, seed=1, epoch=0)
        assert num_batches_of(part[0], part[1], **BUDGETS) == planned.num_batches


def test_a_pair_that_is_too_long_is_told_with_the_number_of_all(lengths: tuple[Any, Any]) -> None:
    source, target = lengths[0].copy(), lengths[1]
    source[[7, 4_000]] = 260
    with pytest.raises(UsageError, match=r"too small for 2 of 5000 pairs"):
        schedule((source, target))


def test_blocks_go_with_replay(lengths: tuple[Any, Any]) -> None:
    def run() -> ReplaySchedule:
        return ReplaySchedule(*lengths, num_replayed=1_000, share=0.3, **BUDGETS, seed=3, block_pairs=1_000)

    whole = run()
    batches = [*islice(whole.batches_from(0), whole.num_batches + 2)]
    own = [pair for pair in pairs_of(batches[: whole.num_batches]) if pair < 4_000]
    assert sorted(own) == list(range(4_000))
    for step in range(0, whole.num_batches, 11):
        [found] = islice(run().batches_from(step), 1)
        assert (found.position, pairs_of([found])) == (batches[step].position, pairs_of([batches[step]]))
