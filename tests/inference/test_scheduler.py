"""Threads that work beside each other: what one does to the others.

The queue of searches: who joins, who leaves, what is told and when.
"""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest
import torch
from tests.patience import PATIENCE_SECONDS, wait_until

from allyouneed.config.run import SearchConfig
from allyouneed.hardware.devices import PyTorchThreads
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.engine import Engine
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.scheduler import Job, Scheduler, Source, search_of
from allyouneed.inference.search import Decoding
from allyouneed.inference.search_plan import Batching, Load, SearchPlan
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.symbols import UNKNOWN


def test_two_that_use_pytorch_at_once_leave_its_threads_as_they_were() -> None:
    before, threads = torch.get_num_threads(), PyTorchThreads()
    first, second = threads.limited_to(1), threads.limited_to(1)
    with ExitStack() as stack:
        stack.enter_context(first)
        with second:
            assert torch.get_num_threads() == 1
            stack.close()
    assert torch.get_num_threads() == before


VOCAB_SIZE = 11
CONFIG = SearchConfig(max_extra_tokens=6)


def search(ids: list[int], prefix: Sequence[int] = ()) -> Job[list[Hypothesis]]:
    return search_of(Source(ids, prefix))


def random_sources(num: int, seed: int = 1) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(UNKNOWN, VOCAB_SIZE) for _ in range(draw.randrange(1, 12))] for _ in range(num)]


@pytest.fixture
def engine(tiny_model: Any) -> Engine:
    return build_engine(tiny_model(3).eval())


class Held(TorchEngine):
    """Decodes only while it is allowed to."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.going = threading.Event()
        self.num_steps = 0

    def start(self, beam_size: int) -> Any:
        decoding: Any = super().start(beam_size)
        step = decoding.step

        def held(*arguments: Any) -> Any:
            assert self.going.wait(PATIENCE_SECONDS)
            self.num_steps += 1
            return step(*arguments)

        decoding.step = held
        return decoding


@pytest.fixture
def held(tiny_model: Any) -> Iterator[Held]:
    engine = Held(tiny_model(3).eval())
    yield engine
    engine.going.set()


def test_many_threads_get_the_same_bits_as_one_call(engine: Engine) -> None:
    configs = [CONFIG, CONFIG.replace(beam_size=2), CONFIG.replace(length_penalty=1.0)]
    sources = random_sources(60)
    expected = {config: list(generate(engine, sources, config)) for config in configs}
    with Scheduler(Batching(tokens=200, workers=3)).start() as scheduler, ThreadPoolExecutor(6) as callers:

        def ask(number: int) -> tuple[int, SearchConfig, list[Hypothesis]]:
            config = configs[number % 3]
            plan = SearchPlan(engine, config)  # an equal plan each time
            future = scheduler.submit(plan, search(sources[number // 3]))
            return number // 3, config, future.result(PATIENCE_SECONDS)

        for number, config, found in callers.map(ask, range(180)):
            assert found == expected[config][number]
        assert scheduler.num_tokens == 0
        assert scheduler.load().num_done == sum(
            (len(source) + 1) * config.beam_size for source in sources for config in configs
        )


def test_the_load_tells_how_much_work_waits_and_who_is_idle(held: Held) -> None:
    plan, source, num_tokens = SearchPlan(held, CONFIG.replace(beam_size=2)), search([5] * 9), 20
    with Scheduler(Batching(workers=2)).start() as scheduler:
        assert scheduler.load() == Load(num_waiting=0, num_done=0, seconds_worked=0.0, num_idle=2)
        first = scheduler.submit(plan, source)
        assert scheduler.load() == (num_tokens, 0, 0.0, 1)
        second, third = (scheduler.submit(plan, source) for _ in range(2))
        assert scheduler.load()[:3] == (3 * num_tokens, 0, 0.0)
        assert scheduler.load().num_idle <= 0  # negative while no worker holds the third
        held.going.set()
        for each in (first, second, third):
            each.result(PATIENCE_SECONDS)
        assert scheduler.load()[:2] == (0, 3 * num_tokens)
        assert scheduler.load().num_idle == 2
        wait_until(lambda: scheduler.load().seconds_worked > 0)


def test_work_counts_as_far_as_it_has_come_and_no_farther_if_it_is_cancelled(engine: Engine) -> None:
    endless = CONFIG.replace(beam_size=2, min_length=100_000, max_extra_tokens=100_000, max_length=None)
    with Scheduler(Batching()).start() as scheduler:
        future = scheduler.submit(SearchPlan(engine, endless), search([5] * 9))
        wait_until(lambda: scheduler.load().num_done == 20)  # the output is longer than the source
        assert scheduler.load().num_waiting == 20
        assert scheduler.load().seconds_worked > 0
        future.cancel()
        waiting = scheduler.submit(SearchPlan(engine, endless), search([5] * 30))
        waiting.cancel()
        wait_until(lambda: scheduler.load().num_idle)
        assert scheduler.load().num_waiting == 0
        assert scheduler.load().num_done < 20 + 62


def test_equal_plans_share_a_batch_and_others_do_not(engine: Engine) -> None:
    assert SearchPlan(engine, CONFIG) == SearchPlan(engine, SearchConfig(max_extra_tokens=6))
    others = [
        SearchPlan(engine, CONFIG, 2),
        SearchPlan(engine, CONFIG.replace(beam_size=3)),
        SearchPlan(build_engine(engine.models[0]), CONFIG),
    ]
    assert len({SearchPlan(engine, CONFIG), *others}) == 4


def test_samples_of_a_source_are_one_future(engine: Engine) -> None:
    config = CONFIG.replace(sampling=True)
    sources = random_sources(5)
    with Scheduler(Batching(workers=2)).start() as scheduler:
        plan = SearchPlan(engine, config, 7)
        futures = scheduler.submit_all(plan, map(search, [*sources, []]))
        found = [future.result(PATIENCE_SECONDS) for future in futures]
    assert found == list(generate(engine, [*sources, []], config, n_best=7))
    assert [len(samples) for samples in found] == [7] * 6


def test_a_cancelled_search_leaves_at_the_next_step_and_others_stay_as_they_are(held: Held) -> None:
    sources = random_sources(9)
    with Scheduler(Batching()).start() as scheduler:
        futures = scheduler.submit_all(SearchPlan(held, CONFIG), map(search, sources))
        assert all(future.cancel() for future in futures[::2])
        tokens_left = sum(4 * (len(source) + 1) for source in sources[1::2])
        assert scheduler.num_tokens == tokens_left
        held.going.set()
        found = [future.result(PATIENCE_SECONDS) for future in futures[1::2]]
        assert scheduler.num_tokens == 0
    assert found == list(generate(TorchEngine(held.model), sources[1::2], CONFIG))
    assert all(future.cancelled() for future in futures[::2])


def test_when_all_have_left_nothing_is_computed(held: Held) -> None:
    with Scheduler(Batching()).start() as scheduler:
        future = scheduler.submit(SearchPlan(held, CONFIG.replace(min_length=9)), search([5] * 9))
        future.cancel()
        held.going.set()
        scheduler.close()
    assert held.num_steps <= 1  # that which had begun


def test_a_search_past_its_deadline_fails_and_its_neighbour_goes_on(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("allyouneed.inference.scheduler.time.monotonic", lambda: now)
    with Scheduler(Batching()).start() as scheduler:
        plan, source = SearchPlan(held, CONFIG), search([5, 6])
        soon: dict[str, Any] = {"deadline": 1.0}
        late: dict[str, Any] = {"deadline": 3.0}
        overdue, other = (scheduler.submit(plan, source, **when) for when in (soon, late))
        now = 2.0  # the batch waits in its first step, or has not begun
        held.going.set()
        with pytest.raises(TimeoutError, match="deadline of the search has passed"):
            overdue.result(PATIENCE_SECONDS)
        assert other.result(PATIENCE_SECONDS)


def test_what_is_certain_is_told_and_grows(engine: Engine) -> None:
    told: list[tuple[int, list[int], bool]] = []
    with Scheduler(Batching()).start() as scheduler:
        plan = SearchPlan(engine, SearchConfig(beam_size=2, max_extra_tokens=20))
        future = scheduler.submit(plan, search([5, 6, 7], [9, 4]), watch=lambda *each: told.append(each))
        [best] = future.result(PATIENCE_SECONDS)
    parts = [ids for _, ids, _ in told]
    assert parts[0][0] == 9
    assert all(len(part) < len(longer) for part, longer in itertools.pairwise(parts[:-1]))
    assert all(best.ids[: len(part)] == part for part in parts)
    assert [(number, is_all) for number, _, is_all in told] == [(0, False)] * (len(told) - 1) + [(0, True)]
    assert parts[-1] == best.ids


def test_who_cannot_be_told_fails_alone(engine: Engine) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("nobody listens")

    plan = SearchPlan(engine, CONFIG)
    with Scheduler(Batching()) as scheduler:
        others = [scheduler.submit(plan, search([5, 6])) for _ in range(2)]
        deaf = scheduler.submit(plan, search([5, 6]), watch=fail)
        scheduler.work_off()
        with pytest.raises(OSError, match="nobody listens"):
            deaf.result(0)
        assert all(future.result(0) for future in others)
        assert scheduler.num_tokens == 0


def test_a_failing_batch_fails_alone(engine: TorchEngine, tiny_model: Any) -> None:
    class Broken(TorchEngine):
        def start(self, beam_size: int) -> Decoding:
            raise MemoryError("no room")

    broken = Broken(tiny_model(3).eval())
    with Scheduler(Batching()).start() as scheduler:
        bad = [scheduler.submit(SearchPlan(broken, CONFIG), search([5])) for _ in range(3)]
        good = [scheduler.submit(SearchPlan(engine, CONFIG), search([5])) for _ in range(3)]
        for future in bad:
            with pytest.raises(MemoryError, match="no room"):
                future.result(PATIENCE_SECONDS)
        assert all(future.result(PATIENCE_SECONDS) for future in good)
        assert scheduler.num_tokens == 0


def test_an_error_while_a_search_is_finished_is_that_of_its_future(
    engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise MemoryError("no room to look back")

    monkeypatch.setattr(SearchPlan, "finished", fail)
    with Scheduler(Batching()).start() as scheduler:
        futures = [scheduler.submit(SearchPlan(engine, CONFIG), search([5, 6])) for _ in range(3)]
        for future in futures:
            with pytest.raises(MemoryError, match="no room to look back"):
                future.result(PATIENCE_SECONDS)


def test_closing_finishes_what_was_submitted_or_cancels_it(held: Held) -> None:
    first = Scheduler(Batching(size=1)).start()
    futures = first.submit_all(SearchPlan(held, CONFIG), map(search, random_sources(4)))
    held.going.set()
    first.close()
    assert all(future.done() and not future.cancelled() for future in futures)
    with pytest.raises(RuntimeError, match="closed"):
        first.submit(SearchPlan(held, CONFIG), search([5]))
    held.going.clear()
    with Scheduler(Batching(size=1)).start() as second:
        futures = second.submit_all(SearchPlan(held, CONFIG), map(search, random_sources(4)))
        threading.Timer(0.1, held.going.set).start()
    assert all(future.cancelled() for future in futures[1:])


def test_workers_share_the_sentences_equally(tiny_model: Any) -> None:
    """Else the first would take all that its batch has room for, and the others would wait."""
    seen: list[set[int]] = [set(), set()]
    together = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    class Watched(TorchEngine):
        def start(self, beam_size: int) -> Any:
            mine = seen[int(threading.current_thread().name.removeprefix("search-"))]
            decoding: Any = super().start(beam_size)
            admit = decoding.admit

            def admitting(sources: list[list[int]]) -> None:
                if not mine:
                    together.wait()
                mine.add(len(sources))
                admit(sources)

            decoding.admit = admitting
            return decoding

    with Scheduler(Batching(workers=2)) as scheduler:
        plan = SearchPlan(Watched(tiny_model(3).eval()), CONFIG)
        futures = scheduler.submit_all(plan, map(search, random_sources(10)))
        scheduler.start()
        assert all(future.result(PATIENCE_SECONDS) for future in futures)
    assert seen == [{5}, {5}]


def test_where_no_thread_can_start_it_ends_with_that_error(
    engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_room)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        list(generate(engine, random_sources(4), CONFIG, batching=Batching(workers=2)))


def test_work_of_several_sources_has_one_result(engine: Engine) -> None:
    sources = [*random_sources(5), []]
    with Scheduler(Batching(size=2, workers=2)).start() as scheduler:
        several = Job([Source(source) for source in sources], lambda found: [best.ids for [best] in found])
        future = scheduler.submit(SearchPlan(engine, CONFIG), several)
        none = scheduler.submit(SearchPlan(engine, CONFIG), Job([], len))
        assert future.result(PATIENCE_SECONDS) == [best.ids for [best] in generate(engine, sources, CONFIG)]
        assert none.result(0) == 0


def test_work_fails_with_the_first_of_its_searches_or_in_the_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SearchPlan, ended: list[tuple[SearchRequest, list[Hypothesis]]]) -> list[list[Hypothesis]]:
        if any(request.source[0] == 5 for request, _ in ended):
            raise OSError("broken")
        return [found for _, found in ended]

    monkeypatch.setattr(SearchPlan, "finished", fail)
    with Scheduler(Batching(size=1)).start() as scheduler:
        plan, sources = SearchPlan(engine, CONFIG), [Source([token, 6]) for token in (7, 5, 8)]
        future = scheduler.submit(plan, Job(sources, len))
        with pytest.raises(OSError, match="broken"):
            future.result(PATIENCE_SECONDS)
        wrong = scheduler.submit(plan, Job(sources[:1], lambda found: len(found) // 0))
        with pytest.raises(ZeroDivisionError):
            wrong.result(PATIENCE_SECONDS)
        assert scheduler.submit(plan, Job(sources[::2], len)).result(PATIENCE_SECONDS) == 2
        assert scheduler.num_tokens == 0


def test_cancelling_work_cancels_all_its_searches(held: Held) -> None:
    with Scheduler(Batching(size=1, workers=2)).start() as scheduler:
        sources = [Source(source) for source in random_sources(6)]
        future = scheduler.submit(SearchPlan(held, CONFIG), Job(sources, len))
        assert scheduler.num_tokens == sum(4 * (len(source.ids) + 1) for source in sources)
        assert future.cancel()
        assert scheduler.num_tokens == 0
        held.going.set()
        wait_until(lambda: scheduler.load().num_idle == 2)
    assert held.num_steps <= 2  # those which had begun


def in_another_thread(act: Callable[[], object]) -> bool:
    """Whether something that is done by another thread comes to its end."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


@pytest.mark.parametrize("ending", ["result", "failure", "cancelled"])
def test_who_is_told_of_the_end_may_wait_for_threads_that_use_the_scheduler(held: Held, ending: str) -> None:
    ended: list[bool] = []
    with Scheduler(Batching()).start() as scheduler:
        plan = SearchPlan(held, CONFIG)
        join: Callable[[list[list[Hypothesis]]], int] = (lambda _: 1 // 0) if ending == "failure" else len
        future = scheduler.submit(plan, Job([Source([5, 6]), Source([7])], join))
        other = search([8])
        future.add_done_callback(
            lambda _: ended.append(in_another_thread(lambda: scheduler.submit(plan, other)))
        )
        if ending == "cancelled":
            future.cancel()
        held.going.set()
        wait_until(lambda: bool(ended))
    assert ended == [True]


def test_who_is_told_of_a_deadline_may_wait_for_threads_that_use_the_scheduler(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("allyouneed.inference.scheduler.time.monotonic", lambda: now)
    with Scheduler(Batching(size=1)).start() as scheduler:
        plan, source, ended = SearchPlan(held, CONFIG), search([5, 6]), []
        limits: list[dict[str, Any]] = [{}, {"deadline": 1.0}, {"deadline": 2.0}, {"deadline": 3.0}]
        first, *others = (scheduler.submit(plan, source, **limit) for limit in limits)
        for future in others:
            future.add_done_callback(
                lambda _: ended.append(in_another_thread(lambda: scheduler.submit(plan, source)))
            )
        now = 9.0
        held.going.set()
        assert first.result(PATIENCE_SECONDS)
        wait_until(lambda: len(ended) == 3)
    assert ended == [True] * 3
