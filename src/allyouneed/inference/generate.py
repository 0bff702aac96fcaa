"""Decoding of any number of sources (paper 6.1), batched by length and returned in input order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.beams import Hypothesis, SearchRequest
from allyouneed.inference.engine import Engine
from allyouneed.inference.scheduler import Scheduler, Source
from allyouneed.inference.search_plan import Batching, SearchPlan
from allyouneed.inference.selection import Constraint


def generate(
    engine: Engine,
    sources: Iterable[Sequence[int]],
    config: SearchConfig,
    *,
    n_best: int = 1,
    prefixes: Iterable[Sequence[int]] = repeat(()),
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
        constraint: Output rules of the task. If no output obeys them, the hypothesis is empty, of score -inf.
        batching: Limits on the work computed at once.

    Raises:
        UsageError: `n_best` exceeds the beam size, or the model lacks the attention that `config` requests.
    """
    plan = SearchPlan(engine, config, n_best, constraint)

    def of_window(window: list[Source]) -> list[list[Hypothesis]]:
        longest_first = sorted(range(len(window)), key=lambda index: -len(window[index].ids))
        workers = min(batching.workers, max(1, len(window) * plan.num_samples))
        with engine.ready(), Scheduler(replace(batching, workers=workers)) as scheduler:
            futures = scheduler.submit_all(plan, [window[index] for index in longest_first])
            if workers == 1:
                scheduler.work_off()
            else:
                scheduler.start()
            found = {index: future.result() for index, future in zip(longest_first, futures, strict=True)}
        return [found[index] for index in range(len(window))]

    remaining = _paired(sources, prefixes)
    window_sentences = max(1, batching.window_sentences // plan.num_samples)
    windows = iter(lambda: list(islice(remaining, window_sentences)), [])
    return chain.from_iterable(map(of_window, windows))


def follow(
    engine: Engine, source: Sequence[int], config: SearchConfig, prefix: Sequence[int] = ()
) -> Iterator[list[int]]:
    """Yield the growing prefix of the best output that can no longer change, and finally the whole output.

    Args:
        engine: A model, or an ensemble.
        source: Token ids without end symbol, at least one.
        config: Search settings, without sampling or a coverage penalty.
        prefix: Token ids that the output begins with.

    Raises:
        UsageError: `config` sets sampling or a coverage penalty; raised by the first `next`.
    """
    if config.sampling or config.coverage_penalty:
        raise UsageError("an output cannot be followed with sampling or coverage_penalty; leave it out")
    plan = SearchPlan(engine, config)
    search, request = plan.start(), plan.request(0, source, prefix)
    ended: list[tuple[SearchRequest, list[Hypothesis]]] = []
    certain: list[int] = []
    while not ended:
        with engine.ready():  # only while computing, not while suspended
            if not search.sentences:
                search.admit([request])
            ended = search.step()
        if not ended and len(longer := search.stable_prefix(0)) > len(certain):
            certain = longer
            yield certain
    [(_, found)] = ended
    yield found[0].ids if found else []


def _paired(sources: Iterable[Sequence[int]], prefixes: Iterable[Sequence[int]]) -> Iterator[Source]:
    """Pair each source with its prefix; each prefix is read after its source."""
    of_each = iter(prefixes)
    for ids in sources:
        prefix = next(of_each, None)
        if prefix is None:
            raise ValueError("there are fewer prefixes than sources; give one for each, empty ones too")
        yield Source(ids, prefix)
