"""Decoding of any number of sources (paper 6.1), batched by length and returned in input order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TypeVar

from allyouneed.config.run import SearchConfig
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.scheduler import Job, Scheduler, Source, search_of
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.selection import Constraint

Result = TypeVar("Result")


def generate(
    engine: Engine,
    sources: Iterable[Sequence[int]],
    config: SearchConfig,
    *,
    n_best: int = 1,
    prefixes: Iterable[Sequence[int]] = repeat(()),
    num_given: int = 0,
    constraint: Constraint | None = None,
    batching: Batching = Batching(),
) -> Iterator[list[Hypothesis]]:
    """Yield up to `n_best` hypotheses per source, in input order: best first, or samples as drawn.

    Args:
        engine: A model, or an ensemble.
        sources: Token ids without end symbol. An empty source gets the empty hypothesis with score 0.
        config: Search settings. Outputs have at most `max_extra_tokens` tokens more than their source, the
            end symbol counted in both, and no more than the model has positions for.
        n_best: Maximum number of hypotheses per source.
        prefixes: Token ids that the outputs of each source begin with.
        num_given: Number of these that have probability 1; see `Source`.
        constraint: Output rules of the task. If no output obeys them, the hypothesis is empty, of score -inf.
        batching: Limits on the work computed at once.

    Raises:
        UsageError: `n_best` exceeds the beam size, or the model lacks the attention that `config` requests.
    """
    plan = SearchPlan(engine, config, n_best, constraint)
    return carry_out(plan, map(search_of, _paired(sources, prefixes, num_given)), batching)


def carry_out(plan: SearchPlan, jobs: Iterable[Job[Result] | Result], batching: Batching) -> Iterator[Result]:
    """Yield the results of jobs, in order and in constant memory; what is no job is a result.

    Args:
        plan: How sources are searched.
        jobs: Any number of jobs, read ahead to search the longest sources first.
        batching: Limits on the work computed at once.
    """

    def outputs(window: "Sequence[Job[Result] | Result]") -> Iterator[list[list[Hypothesis]]]:
        sources = [Job(job.sources, list) for job in window if isinstance(job, Job)]
        num_searches = sum(len(job.sources) for job in sources) * plan.num_samples
        workers = min(batching.workers, max(1, num_searches))
        with plan.engine.ready(), Scheduler(replace(batching, workers=workers)) as scheduler:
            futures = scheduler.submit_all(plan, sources)
            if workers == 1:
                scheduler.work_off()
            else:
                scheduler.start()
            return iter([future.result() for future in futures])

    remaining = iter(jobs)
    while window := list(_window(remaining, batching.window_sentences // plan.num_samples)):
        found = outputs(window)
        for job in window:  # joined one by one, so that a window of results need not be kept
            yield job.join(next(found)) if isinstance(job, Job) else job


def _window(remaining: Iterator[Job[Result] | Result], num_sources: int) -> Iterator[Job[Result] | Result]:
    """The next jobs, with at least `num_sources` sources if there are as many."""
    num = 0
    for job in remaining:
        yield job
        num += len(job.sources) if isinstance(job, Job) else 1
        if num >= num_sources:
            return


def _paired(
    sources: Iterable[Sequence[int]], prefixes: Iterable[Sequence[int]], num_given: int
) -> Iterator[Source]:
    """Pair each source with its prefix; each prefix is read after its source."""
    of_each = iter(prefixes)
    for ids in sources:
        prefix = next(of_each, None)
        if prefix is None:
            raise ValueError("there are fewer prefixes than sources; give one for each, empty ones too")
        yield Source(ids, prefix, num_given)
