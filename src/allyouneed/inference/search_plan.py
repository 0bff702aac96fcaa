"""Plans of searches, and the limits on their batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allyouneed.config.run import SearchConfig
from allyouneed.data.vectors import with_end
from allyouneed.errors import UsageError
from allyouneed.inference.alignment import looking_back
from allyouneed.inference.beams import NOTHING, Hypothesis, SearchRequest
from allyouneed.inference.block_choice import require_effect, speculation_of
from allyouneed.inference.engine import Engine
from allyouneed.inference.native_engine import EncodedSources, NativeDecoding
from allyouneed.inference.required_phrases import RequiredPhrases
from allyouneed.inference.search import BeamSearch, Decoding
from allyouneed.inference.selection import Constraint


class SearchPlan:
    """A model, search settings and output rules. Sources with equal plans can share a batch.

    If no output obeys the `constraint` of the task, the hypothesis is empty, of score -inf.

    Raises:
        UsageError: `n_best` exceeds the beam size, or the model lacks the attention that `config` requests.
    """

    def __init__(
        self,
        engine: Engine,
        config: SearchConfig,
        n_best: int = 1,
        constraint: Constraint | None = None,
    ) -> None:
        if n_best > config.beam_size and not config.sampling:
            raise UsageError(
                f"{n_best} hypotheses a sentence are wanted of a beam of {config.beam_size};"
                " raise the beam size (beam_size) or ask for fewer (n_best)",
                settings=["beam_size", "n_best"],
            )
        self.engine, self.config, self.n_best, self.constraint = engine, config, n_best, constraint
        looks_back = config.alignments or config.coverage_penalty
        self._encoded = EncodedSources() if looks_back else None
        self._look_back = looking_back(engine, config, n_best, self._encoded)
        if config.blockwise:
            speculation_of(engine, config)  # or says why not
            require_effect(config, has_rules=constraint is not None)
            if n_best > 1 and not config.sampling:
                raise UsageError(
                    "n_best: blockwise finds one output; leave out one", settings=["n_best", "blockwise"]
                )
        self._identity = engine, config, n_best, constraint
        self._hash = hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchPlan) and self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    @property
    def num_samples(self) -> int:
        """Number of searches per source."""
        return self.n_best if self.config.sampling else 1

    @property
    def beam_size(self) -> int:
        """Number of hypotheses kept per search."""
        return 1 if self.config.sampling or self.config.blockwise else self.config.beam_size

    def start(self) -> BeamSearch:
        """Start an empty batch."""
        config = self.config
        if config.sampling or config.blockwise:
            return BeamSearch(self._decoding(), config.replace(beam_size=1), 1, self.constraint)
        n_best = config.beam_size if config.coverage_penalty else self.n_best
        return BeamSearch(self._decoding(), config, n_best, self.constraint)

    def _decoding(self) -> Decoding:
        if self.config.blockwise:
            return speculation_of(self.engine, self.config)
        decoding = self.engine.start(self.beam_size)
        if isinstance(decoding, NativeDecoding):
            decoding.encoded = self._encoded
        return decoding

    def request(
        self,
        key: int,
        source: Sequence[int],
        prefix: Sequence[int] = (),
        num_given: int = 0,
        required: RequiredPhrases | None = None,
        sample: int = 0,
    ) -> SearchRequest:
        """Make the request to search one source.

        `source` has at least one token, or vector, and no end symbol; `sample` is below `num_samples`.
        """
        limits = [limit for limit in (self.config.max_length, self.engine.max_positions) if limit is not None]
        longest = min([len(source) + 1 + self.config.max_extra_tokens, *limits])
        longest = max(longest, len(prefix) + 1)
        return SearchRequest(key, with_end(source), longest, prefix, num_given, sample, required)

    def finished(self, ended: Sequence[tuple[SearchRequest, list[Hypothesis]]]) -> list[list[Hypothesis]]:
        """The final hypotheses of requests, at least one each, with alignments and coverage penalties."""
        found = self._look_back([(request.source, its) for request, its in ended])
        return [its or [Hypothesis([], NOTHING)] for its in found]

    def without_search(self) -> list[Hypothesis]:
        """The hypotheses of an empty source."""
        return [Hypothesis([], 0.0)] * self.num_samples


@dataclass(frozen=True)
class Batching:
    """Limits on the work computed at once."""

    tokens: int | None = None
    """Maximum source tokens per worker, padding and end symbols included, times the beam size; by default as
    many as the engine has the memory for (`Engine.batch_tokens`)."""
    size: int | None = None
    """Maximum sentences per worker."""
    workers: int = 1
    """Number of threads, each decoding its own batches."""
    window_sentences: int = 4_096
    """Number of sources, or samples, that are read ahead and sorted by length; bounds the memory."""


class Room:
    """The room that a worker has for more searches.

    `sizes` are the number of sentences, and the length of the longest, that the worker has of each plan.
    """

    def __init__(self, batching: Batching, sizes: Mapping[SearchPlan, tuple[int, int]]) -> None:
        self._batching, self._sizes = batching, sizes

    def admits(self, plan: SearchPlan, length: int) -> bool:
        """Whether there is room for a search of a source of this length, which then is taken."""
        num, longest = self._sizes.get(plan, (0, 0))
        sizes = {**self._sizes, plan: (num + 1, max(longest, length))}
        if self._sizes:
            if self._num_tokens(sizes) > (
                self._batching.tokens or min(plan.engine.batch_tokens for plan in sizes)
            ):
                return False
            if self._batching.size is not None and sum(n for n, _ in sizes.values()) > self._batching.size:
                return False
        self._sizes = sizes
        return True

    def _num_tokens(self, sizes: Mapping[SearchPlan, tuple[int, int]]) -> int:
        return sum(
            num * plan.beam_size * max(longest, 1 if self._batching.tokens else plan.engine.shortest_source)
            for plan, (num, longest) in sizes.items()
        )


class Load(NamedTuple):
    """How busy workers are."""

    num_waiting: int
    """Amount of work that is not done, in tokens or another unit."""
    num_done: int
    """Amount of work done since the start."""
    seconds_worked: float
    """Time that the average worker has worked since the start."""
    num_idle: int
    """Number of workers that have nothing to do."""
