import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.stores import write_store

from allyouneed.config.presets import preset
from allyouneed.data.batch_plans import (
    EpochPlan,
    PlannedBatch,
    length_batches,
    make_batch,
    plan_epoch,
)
from allyouneed.data.schedule import BatchSchedule
from allyouneed.data.store import PairStore
from allyouneed.errors import DataError, UsageError

Lengths = list[tuple[int, int]]

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=120)


@st.composite
def corpora_and_budgets(draw: st.DrawFn) -> tuple[Lengths, int, int]:
    """Sentence lengths, batch_tokens, micro_batch_tokens: any that go together."""
    corpus = draw(lengths)
    longest = max(map(max, corpus)) + 1
    micro_batch_tokens = draw(st.integers(longest, 100))
    return corpus, draw(st.integers(micro_batch_tokens, 400)), micro_batch_tokens


def plan(
    corpus: Lengths, batch_tokens: int, micro_batch_tokens: int, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    source, target = zip(*corpus, strict=True)
    return plan_epoch(
        source,
        target,
        batch_tokens=batch_tokens,
        micro_batch_tokens=micro_batch_tokens,
        seed=seed,
        epoch=epoch,
    )


def schedule(corpus: Lengths, batch_tokens: int, micro_batch_tokens: int) -> BatchSchedule:
    source, target = zip(*corpus, strict=True)
    return BatchSchedule(
        source, target, batch_tokens=batch_tokens, micro_batch_tokens=micro_batch_tokens, seed=5
    )


def batches(epoch_plan: EpochPlan) -> list[list[list[int]]]:
    return [[micro.tolist() for micro in epoch_plan.batch(i)] for i in range(epoch_plan.num_batches)]


def caption_like_lengths(num_pairs: int) -> Lengths:
    """Lengths as those of image captions in word-pieces: about 14 a side, seldom above 30, correlated."""
    generator = np.random.Generator(np.random.PCG64(0))
    source = generator.gamma(9, 14 / 9, num_pairs)
    target = source * generator.normal(1.03, 0.17, num_pairs)
    return list(zip(*np.clip((source, target), 2, 50).astype(int).tolist(), strict=True))


@given(corpora_and_budgets(), st.integers(0, 3), st.integers(0, 3))
def test_every_pair_occurs_once_an_epoch(case: tuple[Lengths, int, int], seed: int, epoch: int) -> None:
    pairs = itertools.chain.from_iterable(itertools.chain.from_iterable(batches(plan(*case, seed, epoch))))
    assert sorted(pairs) == list(range(len(case[0])))


@example(([(14, 14)] * 4, 29, 15))
@given(corpora_and_budgets())
def test_budgets_hold_on_both_sides_with_end_symbols_and_padding(case: tuple[Lengths, int, int]) -> None:
    corpus, batch_tokens, micro_batch_tokens = case
    for batch in batches(plan(*case)):
        for side in (0, 1):
            padded = [len(micro) * (max(corpus[i][side] for i in micro) + 1) for micro in batch]
            assert max(padded) <= micro_batch_tokens
            assert sum(padded) <= batch_tokens


@given(corpora_and_budgets())
def test_target_tokens_are_those_of_the_batch_with_end_symbols(case: tuple[Lengths, int, int]) -> None:
    corpus, epoch_plan = case[0], plan(*case)
    assert [epoch_plan.target_tokens(i) for i in range(epoch_plan.num_batches)] == [
        sum(corpus[i][1] + 1 for micro in batch for i in micro) for batch in batches(epoch_plan)
    ]


@given(corpora_and_budgets())
def test_global_batches_have_equally_many_micro_batches_or_one_less(case: tuple[Lengths, int, int]) -> None:
    epoch_plan = plan(*case)
    sizes = {len(batch) for batch in batches(epoch_plan)}
    assert max(sizes) - min(sizes) <= 1
    assert len(epoch_plan.micro_batches) == sum(map(len, batches(epoch_plan)))


@given(corpora_and_budgets(), st.integers(0, 9))
def test_the_number_of_batches_is_the_same_in_every_epoch(case: tuple[Lengths, int, int], epoch: int) -> None:
    assert plan(*case, seed=1, epoch=epoch).num_batches == plan(*case, seed=2, epoch=0).num_batches


@given(corpora_and_budgets(), st.integers(0, 3), st.integers(0, 3))
def test_the_plan_is_a_function_of_its_arguments(
    case: tuple[Lengths, int, int], seed: int, epoch: int
) -> None:
    once, again = plan(*case, seed, epoch), plan(*case, seed, epoch)
    assert batches(once) == batches(again)
    assert once.hash == again.hash


def test_another_seed_epoch_or_budget_gives_another_plan() -> None:
    corpus = caption_like_lengths(500)
    plans = [
        plan(corpus, 1000, 250, seed=0, epoch=0),
        plan(corpus, 1000, 250, seed=0, epoch=1),
        plan(corpus, 1000, 250, seed=1, epoch=0),
        plan(corpus, 1000, 200, seed=0, epoch=0),
        plan(corpus, 750, 250, seed=0, epoch=0),
        plan(corpus[:-1], 1000, 250, seed=0, epoch=0),
    ]
    for one, other in itertools.combinations(plans, 2):
        assert batches(one) != batches(other)
        assert one.hash != other.hash


@given(corpora_and_budgets(), corpora_and_budgets())
def test_hashes_are_equal_only_for_equal_plans(
    one: tuple[Lengths, int, int], other: tuple[Lengths, int, int]
) -> None:
    assert (plan(*one).hash == plan(*other).hash) == (batches(plan(*one)) == batches(plan(*other)))


def test_pairs_of_one_length_meet_others_in_every_epoch() -> None:
    corpus = [(4, 4)] * 40
    partners = [
        {frozenset(m) for batch in batches(plan(corpus, 40, 20, epoch=e)) for m in batch} for e in (0, 1)
    ]
    assert partners[0] != partners[1]


def test_a_global_batch_spans_the_lengths_of_the_corpus() -> None:
    corpus = caption_like_lengths(20_000)
    epoch_plan = plan(corpus, 25_000, 2_500)
    longest = [[max(max(corpus[i]) for i in micro) for micro in batch][:9] for batch in batches(epoch_plan)]
    for micro_lengths in longest:
        assert micro_lengths == sorted(micro_lengths, reverse=True)
        assert len(set(micro_lengths)) >= 7
        assert micro_lengths[0] > 1.5 * micro_lengths[-1]


def test_the_papers_batches_hold_about_25_000_real_tokens_a_side() -> None:
    # Lengths like those of WMT's news and debates in 37,000 sub-words: median 22, mean 26, long tail.
    generator = np.random.Generator(np.random.PCG64(1))
    source = generator.lognormal(3.1, 0.6, 60_000)
    target = source * generator.lognormal(0, 0.15, 60_000)
    pairs = np.clip((source, target), 1, 200).astype(int).tolist()
    corpus: Lengths = list(zip(*pairs, strict=True))
    training = preset("base").training
    epoch_plan = plan(corpus, training.batch_tokens, training.resolved_micro_batch_tokens())
    sides = [
        [sum(corpus[i][side] + 1 for micro in batch for i in micro) for batch in batches(epoch_plan)[:-1]]
        for side in (0, 1)
    ]
    assert [np.mean(of_side) for of_side in sides] == pytest.approx([25_000, 25_000], rel=0.03)
    assert max(map(max, sides)) <= training.batch_tokens


@pytest.mark.parametrize(("micro_batch_tokens", "most_padding"), [(1024, 0.02), (2048, 0.03), (4096, 0.04)])
def test_little_of_a_micro_batch_is_padding(micro_batch_tokens: int, most_padding: float) -> None:
    corpus = caption_like_lengths(29_000)
    micro_batches = list(itertools.chain(*batches(plan(corpus, micro_batch_tokens * 4, micro_batch_tokens))))
    real = sum(source + target + 2 for source, target in corpus)
    sides = [tuple(max(corpus[i][side] for i in micro) + 1 for side in (0, 1)) for micro in micro_batches]
    padded = sum(len(micro) * sum(longest) for micro, longest in zip(micro_batches, sides, strict=True))
    assert 1 - real / padded < most_padding
    full = [len(micro) * max(longest) for micro, longest in zip(micro_batches, sides, strict=True)]
    assert np.mean(full) > 0.97 * micro_batch_tokens


@given(corpora_and_budgets(), st.integers(0, 60))
def test_a_run_resumed_at_any_step_goes_on_as_the_uninterrupted_one(
    case: tuple[Lengths, int, int], step: int
) -> None:
    uninterrupted = itertools.islice(schedule(*case).batches_from(0), step, step + 5)
    resumed = itertools.islice(schedule(*case).batches_from(step), 5)
    for expected, actual in zip(uninterrupted, resumed, strict=True):
        assert actual.position == expected.position
        assert actual.num_target_tokens == expected.num_target_tokens
        assert [m.tolist() for m in actual.micro_batches] == [m.tolist() for m in expected.micro_batches]


@given(corpora_and_budgets(), st.integers(0, 3))
def test_a_schedule_is_the_plans_of_its_epochs_in_turn(case: tuple[Lengths, int, int], epoch: int) -> None:
    run = schedule(*case)
    planned = plan(*case, seed=5, epoch=epoch)
    for index in range(run.num_batches):
        position = run.position(epoch * run.num_batches + index)
        assert (position.epoch, position.step, position.plan_hash) == (epoch, index, planned.hash)
    start = epoch * run.num_batches
    found = [
        [micro.tolist() for micro in batch.micro_batches]
        for batch in itertools.islice(run.batches_from(start), run.num_batches)
    ]
    assert found == batches(planned)


@pytest.mark.parametrize("epoch", [0, 2])
def test_ten_resumes_within_an_epoch_read_every_pair_once(epoch: int) -> None:
    corpus = caption_like_lengths(700)
    num_batches = schedule(corpus, 200, 100).num_batches
    stops = sorted(np.random.Generator(np.random.PCG64(1)).choice(num_batches, 10, replace=False).tolist())
    seen: Counter[int] = Counter()
    for start, stop in itertools.pairwise([0, *stops, num_batches]):
        restarted = schedule(corpus, 200, 100).batches_from(epoch * num_batches + start)
        for batch in itertools.islice(restarted, stop - start):
            seen.update(np.concatenate(batch.micro_batches).tolist())
    assert seen == Counter(range(len(corpus)))


def test_a_pair_longer_than_a_micro_batch_is_an_error_that_counts_them() -> None:
    corpus = [(3, 3), (9, 2), (2, 12), (9, 9), (10, 3)]
    assert plan(corpus, 40, 13).num_batches > 0
    with pytest.raises(UsageError) as raised:
        plan(corpus, 40, 10)
    assert str(raised.value) == (
        "training.micro_batch_tokens = 10 is too small for 2 of 5 pairs, end symbols included;"
        " raise it and training.batch_tokens to 13 or more, or prepare the data without long pairs"
    )


def test_a_micro_batch_larger_than_the_batch_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"= 50 is more than .* = 40; lower the first"):
        plan([(3, 3)], 40, 50)


def test_no_pairs_are_an_error() -> None:
    with pytest.raises(DataError, match="no sentence pairs to train on"):
        plan_epoch([], [], batch_tokens=40, micro_batch_tokens=40, seed=0, epoch=0)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[list[int], list[int], int]]:
    generator = np.random.Generator(np.random.PCG64(2))

    def sentence(length: int) -> list[int]:
        return [int(token) for token in generator.integers(3, 37, length)]

    return [
        (sentence(source), sentence(target), line + 1)
        for line, (source, target) in enumerate([(0, 3), (5, 0), *caption_like_lengths(60)])
    ]


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int], int]]
) -> PairStore:
    directory = tmp_path_factory.mktemp("data") / "train"
    write_store(directory, pairs, vocabulary_size=37, shard_tokens=101)
    return PairStore(directory)


def padded(rows: list[list[int]]) -> list[list[int]]:
    return [row + [0] * (max(map(len, rows)) - len(row)) for row in rows]


@given(st.lists(st.integers(0, 61), min_size=1, max_size=12))
def test_a_batch_holds_its_sentences_with_start_end_and_padding(
    store: PairStore, pairs: list[tuple[list[int], list[int], int]], chosen: list[int]
) -> None:
    batch = make_batch(store, np.array(chosen))
    assert batch.source.tolist() == padded([[*pairs[i][0], 2] for i in chosen])
    assert batch.target_input.tolist() == padded([[1, *pairs[i][1]] for i in chosen])
    assert batch.target_output.tolist() == padded([[*pairs[i][1], 2] for i in chosen])
    assert batch.num_target_tokens == sum(len(pairs[i][1]) + 1 for i in chosen)
    assert [array.dtype for array in (batch.source, batch.target_input, batch.target_output)] == [
        np.int64
    ] * 3
    assert store.line_numbers[batch.pairs].tolist() == [pairs[i][2] for i in chosen]


def test_the_batches_of_an_epoch_have_the_tokens_that_the_plan_promised(store: PairStore) -> None:
    run = BatchSchedule(
        store.source_lengths, store.target_lengths, batch_tokens=300, micro_batch_tokens=100, seed=0
    )

    def real_target_tokens(planned: PlannedBatch) -> int:
        made = [make_batch(store, micro) for micro in planned.micro_batches]
        assert all(batch.source.size <= 100 and batch.target_output.size <= 100 for batch in made)
        return sum(int((batch.target_output != 0).sum()) for batch in made)

    for planned in itertools.islice(run.batches_from(0), run.num_batches):
        assert real_target_tokens(planned) == planned.num_target_tokens


@given(
    st.lists(st.integers(0, 30), max_size=60),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(1, 20),
)
def test_inference_batches_hold_each_sentence_once_within_the_limits(
    sentence_lengths: list[int], batch_tokens: int | None, batch_size: int | None
) -> None:
    found = length_batches(sentence_lengths, batch_tokens=batch_tokens, batch_size=batch_size)
    order = [int(i) for batch in found for i in batch]
    assert sorted(order) == list(range(len(sentence_lengths)))
    in_order = [sentence_lengths[i] for i in order]
    assert in_order == sorted(sentence_lengths, reverse=True)
    for batch in found:
        assert 0 < len(batch) <= (batch_size or len(order))
        longest = sentence_lengths[batch[0]]
        assert batch_tokens is None or len(batch) == 1 or len(batch) * longest <= batch_tokens


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 200))
def test_inference_batches_are_as_full_as_the_budget_allows(
    sentence_lengths: list[int], batch_tokens: int
) -> None:
    assume(max(sentence_lengths) <= batch_tokens)
    for batch in length_batches(sentence_lengths, batch_tokens=batch_tokens)[:-1]:
        assert (len(batch) + 1) * sentence_lengths[batch[0]] > batch_tokens


def test_results_of_inference_batches_return_to_input_order() -> None:
    sentence_lengths: NDArray[np.int64] = np.array([3, 9, 0, 9, 4, 1])
    found = length_batches(sentence_lengths, batch_tokens=10)
    assert [batch.tolist() for batch in found] == [[1], [3], [4, 0], [5, 2]]
    results = np.empty(6, np.int64)
    for batch in found:
        results[batch] = sentence_lengths[batch]
    assert results.tolist() == sentence_lengths.tolist()


def test_without_limits_all_sentences_are_one_batch() -> None:
    assert [batch.tolist() for batch in length_batches([1, 3, 2])] == [[1, 2, 0]]
    assert length_batches([]) == []
