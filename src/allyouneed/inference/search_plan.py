"""How sources are searched: a model, settings and output rules."""

from collections.abc import Sequence

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
from allyouneed.symbols import END


class SearchPlan:
    """A model, search settings and output rules. Sources with equal plans can share a batch.

    Args:
        engine: A model, or an ensemble.
        config: Search settings.
        n_best: Maximum number of hypotheses per source.
        constraint: Output rules of the task. If no output obeys them, the hypothesis is empty, of score -inf.

    Raises:
        UsageError: `n_best` exceeds the beam size, or the model lacks the attention that `config` requests.
    """

    def __init__(
        self,
        engine: Engine | Ensemble,
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
        members = engine.engines if isinstance(engine, Ensemble) else [engine]
        self._look_back = looking_back([member.model for member in members], config, n_best)
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
        return 1 if self.config.sampling else self.config.beam_size

    def start(self) -> BeamSearch:
        """Start an empty batch."""
        config = self.config
        if config.sampling:
            one = config.replace(beam_size=1)
            return BeamSearch(self.engine.start(1), one, 1, self.constraint, Sampler(config))
        n_best = config.beam_size if config.coverage_penalty else self.n_best
        return BeamSearch(self.engine.start(config.beam_size), config, n_best, self.constraint)

    def request(
        self, key: int, source: Sequence[int], prefix: Sequence[int] = (), sample: int = 0
    ) -> SearchRequest:
        """Make the request to search one source.

        Args:
            key: The caller's identifier.
            source: Token ids without end symbol, at least one.
            prefix: Token ids that the outputs begin with.
            sample: Number of the sample, below `num_samples`.
        """
        limits = [limit for limit in (self.config.max_length, self.engine.max_positions) if limit is not None]
        longest = min([len(source) + 1 + self.config.max_extra_tokens, *limits])
        return SearchRequest(key, [*source, END], max(longest, len(prefix) + 1), prefix, sample)

    def finished(self, request: SearchRequest, found: list[Hypothesis]) -> list[Hypothesis]:
        """The final hypotheses of a request, at least one, with alignments and coverage penalties.

        Args:
            request: A request of this plan.
            found: Its hypotheses from the search.
        """
        return self._look_back(request.source, found) or [Hypothesis([], NOTHING)]

    def without_search(self) -> list[Hypothesis]:
        """The hypotheses of an empty source."""
        return [Hypothesis([], 0.0)] * self.num_samples
