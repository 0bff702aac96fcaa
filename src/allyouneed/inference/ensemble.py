"""Ensembles: several models decode as one by averaging their token probabilities."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from allyouneed.inference.engine import BATCH_TOKENS, Engine
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates, Chosen, Continuation, log_mean
from allyouneed.native.arrays import Float32, Int64

if TYPE_CHECKING:
    from allyouneed.model.encoder_decoder import EncoderDecoder


class Ensemble(Engine):
    """Starts decodings of all its members.

    The members have any architectures and sizes, the same vocabularies, and one device.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines, self.config = engines, engines[0].config

    @property
    def models(self) -> "Sequence[EncoderDecoder]":
        """The models of all members."""
        return [model for engine in self.engines for model in engine.models]

    @property
    def max_positions(self) -> int | None:
        """Longest source or target, in tokens, that all members support; None if there is no limit."""
        limits = [engine.max_positions for engine in self.engines if engine.max_positions is not None]
        return min(limits, default=None)

    @property
    def batch_tokens(self) -> int:
        """Source tokens computed at once, times the beam size; the members share an accelerator's memory."""
        least = min(engine.batch_tokens for engine in self.engines)
        return min(least, max(BATCH_TOKENS, least // len(self.engines)))

    @property
    def shortest_source(self) -> int:
        """Number of tokens that each source counts for, at least, in batches of `batch_tokens`."""
        return max(engine.shortest_source for engine in self.engines)

    @property
    def aligns(self) -> bool:
        """Whether all members are Transformers."""
        return all(engine.aligns for engine in self.engines)

    @property
    def members(self) -> Sequence[Engine]:
        """The engines of all members."""
        return self.engines

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The contexts of all members."""
        with ExitStack() as stack:
            for engine in self.engines:
                stack.enter_context(engine.ready())
            yield

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding by all members, with `beam_size` hypotheses per sentence."""
        return EnsembleDecoding([engine.start(beam_size) for engine in self.engines])

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float32[np.ndarray, " target_tokens"]:
        """Logarithm of the members' mean probability of each token; arguments as for `Engine`."""
        return log_mean([engine.token_log_probs(sources, targets) for engine in self.engines])


class EnsembleDecoding(Decoding):
    """Decodes the same sentences with all members in step."""

    def __init__(self, members: Sequence[Decoding]) -> None:
        self._members = members
        self._chief = max(members, key=lambda member: member.has_tensors)

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences with each member."""
        for member in self._members:
            member.admit(sources)

    def logits(self, tokens: Int64[np.ndarray, "sentences beams"]) -> Any:
        """Append a token to every hypothesis; return the log of the mean next-token probabilities."""
        return self._chief.log_mean([member.logits(tokens) for member in self._members])

    def choose(self, logits: Any, continuation: Continuation) -> Chosen:
        """Choose how each hypothesis is continued."""
        return self._chief.choose(logits, continuation)

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; the members share one shortlist, or have none."""
        return self._members[0].candidates

    def reorder(self, parents: Int64[np.ndarray, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        for member in self._members:
            member.reorder(parents)

    def keep(self, sentences: Int64[np.ndarray, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        for member in self._members:
            member.keep(sentences)
