"""Selection of the most probable next tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.native import kernels
from allyouneed.native.library import library
from allyouneed.symbols import END, PADDING, SENTINEL, START

NEVER_PRODUCED = (PADDING, START, SENTINEL)
"""Ids that no hypothesis contains. Their probability is not redistributed to the other ids."""

_NOTHING = float("-inf")
_SPARE = 32
"""How many values beyond k are looked at for ties with the k-th, which are frequent in bfloat16."""


@dataclass(frozen=True)
class Candidates:
    """Maps the columns of logits to tokens when the columns are not the whole vocabulary."""

    ids: Int[Tensor, "sentences columns"]
    """Token ids, ascending, control symbols first; padded at the end, where logits are -inf."""
    vocab_size: int

    def at(self, columns: Int[Tensor, "sentences beams k"]) -> Int[Tensor, "sentences beams k"]:
        """The tokens of these columns."""
        return self.ids[:, None].expand(-1, columns.size(1), -1).gather(2, columns)

    def spread(
        self, logits: Float[Tensor, "sentences beams columns"]
    ) -> Float[Tensor, "sentences beams vocab"]:
        """Spread logits over the whole vocabulary, with -inf for all other tokens."""
        wide = logits.new_full((*logits.shape[:2], self.vocab_size), _NOTHING)
        # "amax", as fill columns also carry the padding id and must not overwrite its logit.
        return wide.scatter_reduce_(2, self.ids[:, None].expand_as(logits), logits, "amax")


Restrict = Callable[[Tensor, Tensor], None]
"""Lowers logits (sentences, beams, vocab) in place; their normalisers (sentences, beams) stay."""


@dataclass(frozen=True)
class Restriction:
    """The tokens that a step may not choose."""

    cannot_end: NDArray[np.bool_]
    """(sentences): whether the hypotheses are too short to end."""
    restrict: Restrict | None = None
    """Lowers the logits of tokens that are disallowed for other reasons."""
    forced: Sequence[tuple[int, int]] = ()
    """Sentences with the one token that each must choose, whatever else restricts it."""

    @property
    def is_of_lengths(self) -> bool:
        """Whether `cannot_end` is all that restricts the hypotheses."""
        return self.restrict is None and not self.forced

    def apply(
        self, logits: Float[Tensor, "sentences beams vocab"], normalisers: Float[Tensor, "sentences beams"]
    ) -> None:
        """Lower the logits of disallowed tokens in place."""
        kept = [logits[sentence, :, token].clone() for sentence, token in self.forced]
        if self.restrict is not None:
            self.restrict(logits, normalisers)
        logits[torch.from_numpy(self.cannot_end).to(logits.device), :, END] = _NOTHING
        for (sentence, token), values in zip(self.forced, kept, strict=True):
            logits[sentence] = _NOTHING
            logits[sentence, :, token] = values


def top_log_probs(
    logits: Float[Tensor, "sentences beams columns"],
    k: int,
    restriction: Restriction | None = None,
    candidates: Candidates | None = None,
) -> tuple[Float[Tensor, "sentences beams k"], Int[Tensor, "sentences beams k"]]:
    """The k most probable tokens of each row, as log-probabilities and ids; logits may be overwritten.

    Ties go to the lower id. A row of fewer than k tokens is returned whole, in that order. `candidates` are
    the tokens of the columns, by default the whole vocabulary.
    """
    k = min(k, logits.size(-1))
    native = logits.device.type == "cpu" and logits.dtype == torch.float32 and library() is not None
    if native and (restriction is None or restriction.is_of_lengths):
        cannot_end = None if restriction is None else restriction.cannot_end.repeat(logits.size(1))
        values, ids = kernels.top_log_probs(logits, k, NEVER_PRODUCED, cannot_end=cannot_end)
        return values, ids if candidates is None else candidates.at(ids)
    logits = logits.float()
    # Of the columns, not of the whole vocabulary: a restriction of other sentences must not change the bits.
    normalisers = normalisers_of(logits)
    if restriction is not None:
        if candidates is not None:
            logits, candidates = candidates.spread(logits), None
        restriction.apply(logits, normalisers)
    if native:
        return kernels.top_log_probs(logits, k, NEVER_PRODUCED, normalisers)
    for token in NEVER_PRODUCED:  # a list of them would have to be copied to the device
        logits[..., token] = _NOTHING
    values, ids = stable_top_k(logits, k)
    return values - normalisers[..., None], ids if candidates is None else candidates.at(ids)


def normalisers_of(logits: Float[Tensor, "*rows columns"]) -> Float[Tensor, " *rows"]:
    """Log-sum-exp of each row of contiguous logits; with the kernels, the same bits in any batch."""
    native = logits.device.type == "cpu" and logits.dtype == torch.float32 and library() is not None
    return kernels.log_sum_exp(logits) if native else logits.logsumexp(dim=-1)


def stable_top_k(
    values: Float[Tensor, "*rows width"], k: int
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k largest values of each row and their indices, in descending order; ties go to the lower index.

    A row of fewer than k values is returned whole, in that order.
    """
    width = values.size(-1)
    largest, places = values.topk(most := min(k + _SPARE, width))
    # topk does not define which of equal values it takes, nor their order; they are put in order by place.
    places, order = places.sort(dim=-1)
    largest, order = largest.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    places = places.gather(-1, order)
    # Where the last of them ties with the k-th, topk may have left out others that do, with lower places.
    if most < width and (tied := largest[..., -1] == largest[..., k - 1]).any():
        ordered, order = values[tied].sort(dim=-1, descending=True, stable=True)
        largest[tied], places[tied] = ordered[..., :most], order[..., :most]
    return largest[..., :k], places[..., :k]
