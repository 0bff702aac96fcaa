"""Decoding of any number of sources (paper 6.1), batched by length and returned in input order."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat

import torch

from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.alignment import looking_back
from allyouneed.inference.beams import NOTHING, Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.ensemble import Ensemble
from allyouneed.inference.restrictions import Constraint
from allyouneed.inference.sampling import Sampler
from allyouneed.inference.search import BeamSearch
from allyouneed.inference.search_request import SearchRequest
from allyouneed.inference.workers import ready_to_decode, run_in_threads
from allyouneed.symbols import END


@dataclass(frozen=True)
class Batching:
    """Limits on the work computed at once."""

    tokens: int | None = 8_192
    """Maximum source tokens per worker, padding and end symbols included, times the beam size."""
    size: int | None = None
    """Maximum sentences per worker."""
    workers: int = 1
    """Number of threads, each decoding its own batch."""
    window_sentences: int = 4_096
    """Number of sources, or samples, that are read ahead and sorted by length; bounds the memory."""


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def generate(
    engine: Engine | Ensemble,
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
    if n_best > config.beam_size and not config.sampling:
        raise UsageError(
            f"{n_best} hypotheses a sentence are wanted of a beam of {config.beam_size};"
            " raise the beam size (beam_size) or ask for fewer (n_best)",
            settings=["beam_size", "n_best"],
        )
    models = [engine.model] if isinstance(engine, Engine) else [member.model for member in engine.engines]
    looked_back = looking_back(models, config, n_best)
    new_search = _searches(
        engine, config, config.beam_size if config.coverage_penalty else n_best, constraint
    )
    num_samples, beam_size = (n_best, 1) if config.sampling else (1, config.beam_size)

    def of_window(window: list[tuple[Sequence[int], Sequence[int]]]) -> list[list[Hypothesis]]:
        results = [[] if ids else [Hypothesis([], 0.0)] * num_samples for ids, _ in window]
        waiting = _Waiting(_longest_first(engine, window, config, num_samples), beam_size, batching)

        def work(stop: threading.Event) -> None:
            with torch.inference_mode():  # applies to this thread only
                for sentence, found in waiting.search_all(new_search(), stop):
                    drawn[sentence.key, sentence.sample] = looked_back(sentence.source, found) or [
                        Hypothesis([], NOTHING)
                    ]

        drawn: dict[tuple[int, int], list[Hypothesis]] = {}
        with ready_to_decode(engine):
            run_in_threads(work, batching.workers)
        for (key, _), found in sorted(drawn.items(), key=lambda item: item[0]):
            results[key] += found
        return results

    remaining = _paired(sources, prefixes)
    window_sentences = max(1, batching.window_sentences // num_samples)
    windows = iter(lambda: list(islice(remaining, window_sentences)), [])
    return chain.from_iterable(map(of_window, windows))


def follow(
    engine: Engine | Ensemble, source: Sequence[int], config: SearchConfig, prefix: Sequence[int] = ()
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
    search = BeamSearch(engine.start(config.beam_size), config)
    left: list[tuple[SearchRequest, list[Hypothesis]]] = []
    [sentence] = _longest_first(engine, [(source, prefix)], config, 1)
    certain: list[int] = []
    while not left:
        with ready_to_decode(engine), torch.inference_mode():  # only while computing, not while suspended
            if not search.sentences:
                search.admit([sentence])
            left = search.step()
        if not left and len(longer := search.stable_prefix(0)) > len(certain):
            certain = longer
            yield certain
    [(_, found)] = left
    yield found[0].ids if found else []


def _paired(
    sources: Iterable[Sequence[int]], prefixes: Iterable[Sequence[int]]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Pair each source with its prefix; each prefix is read after its source."""
    of_each = iter(prefixes)
    for source in sources:
        prefix = next(of_each, None)
        if prefix is None:
            raise ValueError("there are fewer prefixes than sources; give one for each, empty ones too")
        yield source, prefix


def _searches(
    engine: Engine | Ensemble, config: SearchConfig, n_best: int, constraint: Constraint | None
) -> Callable[[], BeamSearch]:
    if not config.sampling:
        return lambda: BeamSearch(engine.start(config.beam_size), config, n_best, constraint)
    one = config.replace(beam_size=1)
    return lambda: BeamSearch(engine.start(1), one, 1, constraint, Sampler(config))


def _longest_first(
    engine: Engine | Ensemble,
    sources: Sequence[tuple[Sequence[int], Sequence[int]]],
    config: SearchConfig,
    num_samples: int,
) -> list[SearchRequest]:
    """The non-empty sources, `num_samples` times each, longest first so that no long one runs last."""
    limits = [limit for limit in (config.max_length, engine.max_positions) if limit is not None]

    def longest(ids: Sequence[int]) -> int:
        return min([len(ids) + 1 + config.max_extra_tokens, *limits])

    sentences = [
        SearchRequest(number, [*ids, END], max(longest(ids), len(prefix) + 1), prefix, sample)
        for number, (ids, prefix) in enumerate(sources)
        if len(ids)
        for sample in range(num_samples)
    ]
    return sorted(sentences, key=lambda sentence: -len(sentence.source))


class _Waiting:
    """Queue of sentences that no worker has started, longest first.

    Args:
        sentences: Sentences to decode, longest first.
        beam_size: Number of hypotheses per sentence.
        batching: Limits per worker; no worker holds more than its equal share.
    """

    def __init__(self, sentences: Sequence[SearchRequest], beam_size: int, batching: Batching) -> None:
        self._sentences, self._lock = deque(sentences), threading.Lock()
        self._most = min(batching.size or len(sentences), -(-len(sentences) // batching.workers))
        self._tokens = None if batching.tokens is None else batching.tokens // beam_size

    def search_all(
        self, search: BeamSearch, stop: threading.Event
    ) -> Iterator[tuple[SearchRequest, list[Hypothesis]]]:
        """Search the waiting sentences, refilling the batch as sentences finish, until `stop` is set."""
        search.admit(self._take(search.sentences))
        while search.sentences and not stop.is_set():
            if left := search.step():
                yield from left
                search.admit(self._take(search.sentences))

    def _take(self, begun: Sequence[SearchRequest]) -> list[SearchRequest]:
        """Take as many sentences as fit beside those in the batch; never leave the batch empty."""
        taken: list[SearchRequest] = []
        longest = max((len(sentence.source) for sentence in begun), default=0)
        with self._lock:
            while self._sentences and len(begun) + len(taken) < self._most:
                longest = max(longest, len(self._sentences[0].source))
                num_tokens = longest * (len(begun) + len(taken) + 1)
                if self._tokens is not None and num_tokens > self._tokens and (begun or taken):
                    break
                taken.append(self._sentences.popleft())
        return taken
