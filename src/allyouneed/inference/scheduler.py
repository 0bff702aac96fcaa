"""Carries out the searches of many callers in batches that sentences join and leave."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, count
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.required_phrases import RequiredPhrases
from allyouneed.inference.search import BeamSearch
from allyouneed.inference.search_plan import Batching, Load, Room, SearchPlan

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


Watch = Callable[[int, list[int], bool], None]
"""Called by a worker, whenever there are more, with the number of a source, the tokens of its output that can
no longer change, and whether these are all."""


_NICENESS = 5


class Source(NamedTuple):
    """A source to be searched."""

    ids: Sequence[int]
    """Token ids without end symbol. An empty source gets the empty hypothesis with score 0."""
    prefix: Sequence[int] = ()
    """Token ids that the outputs begin with."""
    num_given: int = 0
    """Number of these, from the first on, that have probability 1, such as the symbol of a language."""
    required: RequiredPhrases | None = None
    """Phrases that the outputs contain."""


class Job(NamedTuple, Generic[Result_co]):
    """Sources to be searched for a caller, and what is made of their outputs."""

    sources: Sequence[Source]
    join: Callable[[list[list[Hypothesis]]], Result_co]
    """Makes the result of the hypotheses of each source: best first, or samples as drawn."""


def search_of(source: Source) -> Job[list[Hypothesis]]:
    """A job whose result is the hypotheses of a source."""
    return Job([source], lambda found: found[0])


class Scheduler:
    """A queue of searches, and the workers that carry them out.

    Searches begin in the order of submission. Those with equal plans share batches; a worker with batches of
    several plans advances them in turn. Results do not depend on the batches if the engine computes the rows
    of a batch independently, as `NativeEngine` does. Any number of threads may submit.

    A search that is cancelled, or past its deadline, leaves its batch at the next step. If a batch fails, all
    its searches fail, and the workers go on.

    Use it as a context, which cancels what is left at its end. The engines must be ready (`Engine.ready`)
    while workers run. No worker holds more than its equal share of the sentences.
    """

    def __init__(self, batching: Batching) -> None:
        self._batching = batching
        self._waiting: deque[_Ticket] = deque()
        self._changed = threading.Condition()
        self._num_held = [0] * batching.workers
        self._num_tokens = self._num_tokens_done = 0
        self._seconds_worked = 0.0
        self._keys = count()
        self._closing = self._stopping = self._yielding = False
        self._threads: list[threading.Thread] = []

    def start(self, *, yielding: bool = False) -> Self:
        """Start the workers as threads.

        If `yielding`, other threads go before the workers (Linux only), for a process that must answer
        meanwhile.
        """
        self._yielding = yielding
        for number in range(self._batching.workers):
            thread = threading.Thread(target=self._work, args=(number,), name=f"search-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def work_off(self) -> None:
        """Be the only worker, in the calling thread, until nothing is left."""
        deque(self.steps(), 0)

    def steps(self) -> Iterator[None]:
        """Be the only worker, in the calling thread, step by step, until nothing is left."""
        return self._steps(0, until_idle=True)

    @property
    def num_tokens(self) -> int:
        """Source tokens, with end symbols, times the beam size, of all searches that are not done."""
        return self._num_tokens

    def load(self) -> Load:
        """How busy the workers are; work is counted in source tokens, as by `num_tokens`."""
        with self._changed:
            num_idle = self._num_held.count(0) - len(self._waiting)
            seconds = self._seconds_worked / self._batching.workers
            return Load(self._num_tokens, self._num_tokens_done, seconds, num_idle)

    def submit(
        self,
        plan: SearchPlan,
        job: Job[Result],
        *,
        deadline: float | None = None,
        watch: Watch | None = None,
    ) -> Future[Result]:
        """Queue a job.

        Args:
            plan: How the sources are searched.
            job: Sources to be searched, and how their outputs are joined.
            deadline: Value of `time.monotonic()` after which it fails with `TimeoutError`.
            watch: Function that follows the growing outputs; not with sampling or a coverage penalty.

        Returns:
            The future of the result, which fails if `join` does. It can be cancelled until it is done.

        Raises:
            RuntimeError: The scheduler is closed.
        """
        pending = _Pending(plan, job, self._keys, deadline, watch)
        self._queue([pending], pending.tickets)
        return pending.future

    def submit_all(self, plan: SearchPlan, jobs: Iterable[Job[Result]]) -> list[Future[Result]]:
        """Queue jobs as by `submit`; the longest sources of all are searched first."""
        pending = [_Pending(plan, job, self._keys) for job in jobs]
        tickets = chain.from_iterable(each.tickets for each in pending)
        self._queue(pending, sorted(tickets, key=lambda ticket: -len(ticket.request.source)))
        return [each.future for each in pending]

    def _queue(self, jobs: "Sequence[_Pending[Any]]", tickets: "Sequence[_Ticket]") -> None:
        with self._changed:
            if self._closing:
                raise RuntimeError("the scheduler is closed")
            self._num_tokens += sum(ticket.num_tokens for ticket in tickets)
            self._waiting.extend(tickets)
            self._changed.notify(len(tickets))
        for job in jobs:
            job.future.add_done_callback(partial(self._count_ended, job.tickets))
            if not job.tickets:
                job.finish()

    def close(self, *, cancel: bool = False) -> None:
        """Stop the workers when all searches are done, or at the next step if `cancel`."""
        with self._changed:
            self._closing = True
            self._stopping = self._stopping or cancel
            left = list(self._waiting) if cancel else []
            self._changed.notify_all()
        for ticket in left:
            ticket.job.future.cancel()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=True)

    def _count_ended(self, tickets: "Sequence[_Ticket]", _: object = None) -> "list[_Pending[Any]]":
        """Count searches that are over; return the jobs of which none is left."""
        ended = list[_Pending[Any]]()
        with self._changed:
            for ticket in tickets:
                if ticket.is_counted:
                    continue
                ticket.is_counted = True
                self._num_tokens -= ticket.num_tokens
                if ticket.found:
                    self._num_tokens_done += ticket.num_tokens_left
                if ticket.holder is not None:
                    self._num_held[ticket.holder] -= 1
                ticket.job.num_open -= 1
                if not ticket.job.num_open:
                    ended.append(ticket.job)
        return ended

    def _work(self, number: int) -> None:
        deque(self._steps(number), 0)

    def _steps(self, number: int, *, until_idle: bool = False) -> Iterator[None]:
        """Search until the scheduler is closed or, with `until_idle`, nothing is left."""
        batches: dict[SearchPlan, _Batch] = {}
        if self._yielding and sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread only
        try:
            while not self._stopping and self._has_work(number, batches, until_idle):
                began = time.monotonic()
                for plan, batch in list(batches.items()):
                    for job in self._count_ended(batch.step()):
                        job.finish()
                    if not batch.tickets:
                        del batches[plan]
                left = [ticket for batch in batches.values() for ticket in batch.tickets.values()]
                with self._changed:
                    self._seconds_worked += time.monotonic() - began
                    self._num_tokens_done += sum(ticket.advance() for ticket in left)
                yield
        finally:
            for batch in batches.values():
                batch.cancel()

    def _has_work(self, number: int, batches: "dict[SearchPlan, _Batch]", until_idle: bool) -> bool:
        """Admit waiting searches; wait for some if there is nothing else to do. False at the end."""
        if batches and not self._waiting:
            return True
        while True:
            with self._changed:
                taken = self._take(number, batches)
                if not (taken or batches or until_idle or self._closing):
                    self._changed.wait()
                    continue
            for ticket in taken:  # outside of the lock, as a callback may be called
                if not ticket.is_over():
                    batches.setdefault(ticket.job.plan, _Batch(ticket.job.plan)).wait(ticket)
            if batches or not taken:
                return bool(batches)

    def _take(self, number: int, batches: "dict[SearchPlan, _Batch]") -> "list[_Ticket]":
        """Take what fits beside the searches of the worker, at least one if it has none. Some may be over."""
        room = Room(self._batching, {plan: batch.size() for plan, batch in batches.items()})
        share = -(-(len(self._waiting) + sum(self._num_held)) // self._batching.workers)
        taken: list[_Ticket] = []
        while self._waiting:
            ticket = self._waiting[0]
            if not ticket.is_overdue() and not (
                self._num_held[number] < share and room.admits(ticket.job.plan, len(ticket.request.source))
            ):
                break
            taken.append(self._waiting.popleft())
            if not ticket.is_overdue():
                ticket.holder = number
                self._num_held[number] += 1
        return taken


class _Pending(Generic[Result]):
    """A job in the queue, and the future of its result."""

    def __init__(
        self,
        plan: SearchPlan,
        job: Job[Result],
        keys: Iterator[int],
        deadline: float | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.plan, self.deadline, self.watch = plan, deadline, watch
        self.future: Future[Result] = Future()
        self._join = job.join
        self._of_sources = [
            [
                _Ticket(self, number, plan.request(next(keys), *source, sample=sample))
                for sample in range(plan.num_samples if len(source.ids) else 0)
            ]
            for number, source in enumerate(job.sources)
        ]
        self.tickets = list(chain.from_iterable(self._of_sources))
        self.num_open = len(self.tickets)

    def finish(self) -> None:
        """Make the result of the outputs of all sources."""
        found = [
            list(chain.from_iterable(ticket.found for ticket in tickets)) or self.plan.without_search()
            for tickets in self._of_sources
        ]
        try:
            result = self._join(found)
        except Exception as error:
            self.fail(error)
        else:
            with suppress(InvalidStateError):  # it has been cancelled
                self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Fail with an error, unless the job is done."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(eq=False)
class _Ticket:
    """The search of a source, or of a sample."""

    job: _Pending[Any]
    number: int
    """Number of the source in its job."""
    request: SearchRequest
    found: list[Hypothesis] = field(default_factory=list)
    num_certain: int = 0
    holder: int | None = None
    """The worker that searches."""
    is_counted: bool = False
    """Whether the search is over, and counted as such."""

    def __post_init__(self) -> None:
        self.num_tokens = self.num_tokens_left = len(self.request.source) * self.job.plan.beam_size

    def is_overdue(self) -> bool:
        """Whether the job is done, or past its deadline."""
        job = self.job
        return job.future.done() or (job.deadline is not None and time.monotonic() > job.deadline)

    def is_over(self) -> bool:
        """Whether the job is done; past its deadline, it fails."""
        if self.is_overdue():
            self.job.fail(TimeoutError("the deadline of the search has passed"))
        return self.job.future.done()

    def advance(self) -> int:
        """Number of tokens done by a step, as if the output were as long as the source."""
        num = min(self.job.plan.beam_size, self.num_tokens_left)
        self.num_tokens_left -= num
        return num

    def tell(self, certain: list[int], *, is_all: bool = False) -> None:
        """Tell the tokens that can no longer change, if there are more; the job fails if that fails."""
        if self.job.watch is None or not (is_all or len(certain) > self.num_certain):
            return
        self.num_certain = len(certain)
        try:
            self.job.watch(self.number, certain, is_all)
        except Exception as error:
            self.job.fail(error)


class _Batch:
    """The searches of one plan that a worker carries out together."""

    def __init__(self, plan: SearchPlan) -> None:
        self._plan = plan
        self._new: list[_Ticket] = []
        self.tickets: dict[int, _Ticket] = {}
        """The searches that are not done, by the key of their request."""

    @cached_property
    def _search(self) -> BeamSearch:
        """The batch, started by the first step, so that a failure is one of these searches."""
        return self._plan.start()

    def size(self) -> tuple[int, int]:
        """Number of sentences and length of the longest."""
        sources = [sentence.source for sentence in self._search.sentences]
        return len(sources), max(map(len, sources), default=0)

    def wait(self, ticket: _Ticket) -> None:
        """Admit a search at the next step."""
        self._new.append(ticket)
        self.tickets[ticket.request.key] = ticket

    def step(self) -> list[_Ticket]:
        """Extend all hypotheses by one token; return the searches that are done."""
        try:
            return self._step()
        except BaseException as error:
            for ticket in self.tickets.values():
                ticket.job.fail(error)
            self.tickets.clear()
            if not isinstance(error, Exception):
                raise
            return []

    def _step(self) -> list[_Ticket]:
        over = {key for key, ticket in self.tickets.items() if ticket.is_over()}
        for key in over:
            del self.tickets[key]
        if over:
            self._search.remove(over)
        if admitted := [ticket.request for ticket in self._new if ticket.request.key not in over]:
            self._search.admit(admitted)
        self._new.clear()
        ended = list[_Ticket]()
        if not self.tickets:
            return ended
        searched = [each for each in self._search.step() if each[0].key in self.tickets]
        for (request, _), found in zip(searched, self._plan.finished(searched), strict=True):
            done = self.tickets.pop(request.key)  # only now, so that an error in `finished` reaches all
            done.found = found
            ended.append(done)
            done.tell(found[0].ids, is_all=True)
        for place, sentence in enumerate(self._search.sentences):
            ticket = self.tickets.get(sentence.key)
            if ticket is not None and ticket.job.watch is not None:
                ticket.tell(self._search.stable_prefix(place))
        return ended

    def cancel(self) -> None:
        """Cancel all searches."""
        for ticket in self.tickets.values():
            ticket.job.future.cancel()
