"""Ensembles: several models decode as one by averaging their token probabilities."""

import functools
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

    The members have any architectures and sizes, the same vocabularies, and one device.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.modules: Sequence[nn.Module] = [module for engine in engines for module in engine.modules]

    @property
    def max_positions(self) -> int | None:
        """Longest source or target, in tokens, that all members support; None if there is no limit."""
        limits = [engine.max_positions for engine in self.engines if engine.max_positions is not None]
        return min(limits, default=None)

    def start(self, beam_size: int) -> Decoding:
        """Start an empty decoding by all members, with `beam_size` hypotheses per sentence."""
        return EnsembleDecoding([engine.start(beam_size) for engine in self.engines])

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Float[Tensor, " target_tokens"]:
        """Logarithm of the members' mean probability of each token; arguments as for `Engine`."""
        members = [engine.token_log_probs(sources, targets) for engine in self.engines]
        return _log_mean(members)


class EnsembleDecoding:
    """Decodes the same sentences with all members in step; a `search.Decoding`."""

    def __init__(self, members: Sequence[Decoding]) -> None:
        self._members = members

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sentences with each member."""
        for member in self._members:
            member.admit(sources)

    def step(self, tokens: Int[Tensor, "sentences beams"]) -> Float[Tensor, "sentences beams vocab"]:
        """Append a token to every hypothesis; return the log of the mean next-token probabilities."""
        log_probs = [member.step(tokens).log_softmax(dim=-1, dtype=torch.float32) for member in self._members]
        return _log_mean(log_probs)

    @property
    def candidates(self) -> Candidates | None:
        """Token of each column of the logits; the members share one shortlist, or have none."""
        return self._members[0].candidates

    def reorder(self, parents: Int[Tensor, "sentences beams"]) -> None:
        """Make hypothesis b of each sentence a continuation of the former hypothesis `parents[:, b]`."""
        for member in self._members:
            member.reorder(parents)

    def keep(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep only these sentences of the batch."""
        for member in self._members:
            member.keep(sentences)


def _log_mean(members: Sequence[Tensor]) -> Tensor:
    """Logarithm of the mean probability; PyTorch's logsumexp over members rounds as the shape wants."""
    largest = functools.reduce(torch.maximum, members).clamp_min(torch.finfo(torch.float32).min)
    total = (members[0] - largest).exp()
    for member in members[1:]:
        total = total + (member - largest).exp()
    return largest + total.log() - math.log(len(members))
