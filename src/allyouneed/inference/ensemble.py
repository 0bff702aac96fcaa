"""Several models that decode as one: the probability of a token is the mean of those that they give it."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from allyouneed.inference.engine import Engine
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates


class Ensemble:
    """Starts decodings of all its members; has the interface of `Engine`.

    Args:
        engines: The members, of whatever shapes, but of the same vocabularies and on one device.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.model = nn.ModuleList(engine.model for engine in engines)

    @property
    def max_positions(self) -> int | None:
        """The longest source or target that all members have positions for, if there is a limit."""
        limits = [engine.max_positions for engine in self.engines if engine.max_positions is not None]
        return min(limits, default=None)

    def start(self, beam_size: int) -> Decoding:
        """A decoding without sentences by all members, for `beam_size` hypotheses of each."""
        return EnsembleDecoding([engine.start(beam_size) for engine in self.engines])

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float[Tensor, " target_tokens"]:
        """The same as for `Engine`: the logarithm of the members' mean probability of each token."""
        members = [engine.token_log_probs(sources, targets) for engine in self.engines]
        return torch.stack(members).logsumexp(dim=0) - math.log(len(members))


class EnsembleDecoding:
    """Decodings of the same sentences, in step; a `search.Decoding`."""

    def __init__(self, members: Sequence[Decoding]) -> None:
        self._members = members

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences, by each member."""
        for member in self._members:
            member.admit(sources)

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; the logarithm of the mean probabilities of what follows it."""
        log_probs = [member.step(tokens).log_softmax(dim=-1, dtype=torch.float32) for member in self._members]
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(self._members))

    @property
    def candidates(self) -> Candidates | None:
        """What the columns of the logits stand for: the members have one shortlist, or none."""
        return self._members[0].candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Let hypothesis b of each sentence go on from what was hypothesis `parents[:, b]`."""
        for member in self._members:
            member.reorder(parents)

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences of the batch only."""
        for member in self._members:
            member.keep(sentences)
