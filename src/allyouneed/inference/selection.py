"""The most probable next tokens."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from allyouneed.native import kernels
from allyouneed.native.library import library
from allyouneed.symbols import PADDING, SENTINEL, START

NEVER_PRODUCED = (PADDING, START, SENTINEL)
"""Ids that no hypothesis contains. Their probability is lost, not spread over the others."""

_NOTHING = float("-inf")


@dataclass(frozen=True)
class Candidates:
    """The tokens that the columns of logits stand for, where they are not the whole vocabulary."""

    ids: Int[Tensor, "sentences columns"]
    """Ascending, the control symbols first; filled up with padding, where logits are -inf."""
    vocab_size: int

    def at(self, columns: Int[Tensor, "sentences beams k"]) -> Int[Tensor, "sentences beams k"]:
        """The tokens in these columns."""
        return self.ids[:, None].expand(-1, columns.size(1), -1).gather(2, columns)

    def spread(
        self, logits: Float[Tensor, "sentences beams columns"]
    ) -> Float[Tensor, "sentences beams vocab"]:
        """The logits in columns of the vocabulary; -inf elsewhere."""
        wide = logits.new_full((*logits.shape[:2], self.vocab_size), _NOTHING)
        # The largest: what fills up must not overwrite the logit of padding.
        return wide.scatter_reduce_(2, self.ids[:, None].expand_as(logits), logits, "amax")


Restrict = Callable[[Tensor, Tensor], None]
"""Lowers logits (*rows, vocab) of what may not follow, in place, and not their normalisers (*rows)."""


def top_log_probs(
    logits: Float[Tensor, "*rows vocab"],
    k: int,
    restrict: Restrict | None = None,
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The log-probabilities of the k most probable tokens of each row, and these; logits are overwritten.

    All are returned, in that order, of a row of fewer than k. The lower id comes first where equal.
    """
    k = min(k, logits.size(-1))
    native = logits.device.type == "cpu" and logits.dtype == torch.float32 and library() is not None
    if native and restrict is None:
        return kernels.top_log_probs(logits, k, NEVER_PRODUCED)
    logits = logits.float()
    normalisers = kernels.log_sum_exp(logits) if native else logits.logsumexp(dim=-1)
    if restrict is not None:
        restrict(logits, normalisers)
    if native:
        return kernels.top_log_probs(logits, k, NEVER_PRODUCED, normalisers)
    logits[..., list(NEVER_PRODUCED)] = _NOTHING
    values, ids = stable_top_k(logits, k)
    return values - normalisers[..., None], ids


def stable_top_k(
    values: Float[Tensor, "*rows width"], k: int
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k largest values of each row and their places, largest first; the lower place where equal.

    All are returned, in that order, of a row of fewer than k.
    """
    largest, places = values.topk(min(k + 1, values.size(-1)))
    # topk leaves open which of equal values it takes, and their order; that shows in equal neighbours.
    tied = (largest[..., 1:] == largest[..., :-1]).any(dim=-1)
    if tied.any():
        ordered, order = values[tied].sort(dim=-1, descending=True, stable=True)
        largest[tied], places[tied] = ordered[..., : k + 1], order[..., : k + 1]
    return largest[..., :k], places[..., :k]
