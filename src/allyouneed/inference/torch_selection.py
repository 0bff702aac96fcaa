"""The choice of the next tokens with PyTorch: on devices other than the CPU, or without kernels."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from allyouneed.config.run import SearchConfig
from allyouneed.hardware.devices import widest_float
from allyouneed.inference.beams import NOTHING
from allyouneed.inference.search import Decoding
from allyouneed.inference.selection import Candidates, Chosen, Continuation, Restriction
from allyouneed.native.library import library
from allyouneed.symbols import END, NEVER_PRODUCED

_TOP_BLOCK_WIDTH = 64
_BLOCK_WIDTH = 256


class TensorDecoding(Decoding):
    """A decoding whose logits are tensors."""

    has_tensors = True

    @torch.inference_mode()
    def choose(self, logits: Tensor | NDArray[np.float32], continuation: Continuation) -> Chosen:
        """Choose how each hypothesis is continued, as `Decoding.choose`."""
        prepared = for_choosing(logits)
        if isinstance(prepared, np.ndarray):
            return super().choose(prepared, continuation)
        return choose_on_device(prepared, continuation, self.candidates)

    @torch.inference_mode()
    def log_mean(self, logits: Sequence[Tensor | NDArray[np.float32]]) -> Tensor | NDArray[np.float32]:
        """Logarithm of the mean probability of each next token, as `Decoding.log_mean`."""
        prepared = [for_choosing(each) for each in logits]
        if isinstance(prepared[0], np.ndarray):
            mean: NDArray[np.float32] = super().log_mean(prepared)
            return mean
        log_probs = [torch.log_softmax(each, dim=-1) for each in prepared if isinstance(each, Tensor)]
        # PyTorch's logsumexp over members rounds as the shape wants.
        largest = functools.reduce(torch.maximum, log_probs).clamp_min(torch.finfo(torch.float32).min)
        total = functools.reduce(torch.add, ((each - largest).exp() for each in log_probs))
        return largest + total.log() - math.log(len(log_probs))


def for_choosing(logits: Tensor | NDArray[np.float32]) -> Tensor | NDArray[np.float32]:
    """The logits in float32, as NumPy's array where the kernels choose from them: on the CPU."""
    if isinstance(logits, np.ndarray):
        return logits
    logits = logits.float()
    return logits.contiguous().numpy() if logits.is_cpu and library() is not None else logits


def choose_on_device(
    logits: Float[Tensor, "sentences beams columns"],
    continuation: Continuation,
    candidates: Candidates | None,
) -> Chosen:
    """Choose tokens as `selection.choose`, on the device of the logits."""
    restriction, draws = continuation.restriction, continuation.draws
    normalisers, num_columns = logits.logsumexp(dim=-1), logits.size(-1)
    ids = None if candidates is None else torch.from_numpy(candidates.ids).to(logits.device)
    if candidates is not None and ids is not None and not (restriction is None and draws is None):
        wide = logits.new_full((*logits.shape[:2], candidates.vocab_size), NOTHING)
        # "amax", as fill columns also carry the padding id and must not overwrite its logit.
        logits, ids = wide.scatter_reduce_(2, ids[:, None].expand_as(logits), logits, "amax"), None
    if restriction is not None:
        restrict(logits, normalisers, restriction)
    for token in NEVER_PRODUCED:  # a list of them would have to be copied to the device
        logits[..., token] = NOTHING
    if draws is not None:
        uniform = torch.from_numpy(draws.uniform).to(widest_float(logits.device)).to(logits.device)
        tokens = draw(logits[:, 0], uniform, draws.config)[:, None, None]
        values = logits.gather(2, tokens)
    else:
        values, tokens = stable_top_k(logits, min(continuation.num_tokens, num_columns))
    log_probs = values - normalisers[..., None]
    if ids is not None:
        tokens = ids[:, None].expand(-1, tokens.size(1), -1).gather(2, tokens)
    return Chosen(log_probs.cpu().numpy(), tokens.cpu().numpy())


def restrict(logits: Tensor, normalisers: Tensor, restriction: Restriction) -> None:
    """Lower the logits of disallowed tokens in place, as `Restriction.apply`."""
    device = logits.device
    kept = [
        (normalisers[sentence] if is_given else logits[sentence, :, token]).clone()
        for sentence, token, is_given in restriction.forced
    ]
    if restriction.penalty is not None:
        ids = torch.from_numpy(restriction.penalty.ids).to(device)
        log_probs = logits.gather(2, ids) - normalisers[..., None]
        logits.scatter_(2, ids, normalisers[..., None] + restriction.penalty.factor * log_probs)
    if restriction.repeated is not None:
        logits[tuple(torch.from_numpy(index).to(device) for index in restriction.repeated)] = NOTHING
    if restriction.allowed is not None:
        table, classes = (torch.from_numpy(array).to(device) for array in restriction.allowed)
        logits.masked_fill_(~table[classes], NOTHING)
    logits[torch.from_numpy(restriction.cannot_end).to(device), :, END] = NOTHING
    for (sentence, token, _), values in zip(restriction.forced, kept, strict=True):
        logits[sentence] = NOTHING
        logits[sentence, :, token] = values


def stable_top_k(
    values: Float[Tensor, "*rows width"], k: int
) -> tuple[Float[Tensor, "*rows k"], Int[Tensor, "*rows k"]]:
    """The k largest values of each row and their indices, in descending order; ties go to the lower index.

    A row of fewer than k values is returned whole, in that order. All but one pass is over the blocks with
    the k largest maxima: each value elsewhere comes after those of k blocks.
    """
    width = values.size(-1)
    places = torch.arange(width, device=values.device)
    if width > k * _TOP_BLOCK_WIDTH:
        whole = values[..., : width - width % _TOP_BLOCK_WIDTH].unflatten(-1, (-1, _TOP_BLOCK_WIDTH))
        rest = values[..., whole.size(-2) * _TOP_BLOCK_WIDTH :]
        largest = [whole.amax(-1), *([rest.amax(-1, keepdim=True)] if rest.size(-1) else [])]
        keys = _in_order(maxima := torch.cat(largest, dim=-1), places[: maxima.size(-1)])
        blocks = keys.topk(k).indices * _TOP_BLOCK_WIDTH
        places = (blocks[..., None] + places[:_TOP_BLOCK_WIDTH]).flatten(-2)  # (*rows, k * block)
    found = values.gather(-1, places.clamp(max=width - 1).expand(*values.shape[:-1], -1))
    keys = _in_order(found, places).masked_fill(places >= width, torch.iinfo(torch.int64).min)
    chosen = keys.topk(min(k, width)).indices
    return found.gather(-1, chosen), places.expand_as(found).gather(-1, chosen)


def _in_order(values: Float[Tensor, "*rows width"], places: Int[Tensor, "*#rows width"]) -> Tensor:
    """Different integers in the order of the values, the one of a lower place first among equal values.

    topk does not define which of equal values it takes.
    """
    bits = (values.float() + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    return ((bits ^ ((bits >> 31) & torch.iinfo(torch.int32).max)).long() << 32) - places


def most_probable(
    logits: Float[Tensor, "sentences beams vocab"], k: int, cannot_end: Bool[Tensor, " sentences"]
) -> tuple[Float32[Tensor, "sentences beams k"], Int64[Tensor, "sentences beams k"]]:
    """Log-probabilities and ids of the most probable tokens of each row, without waiting for the device.

    The logits, which are overwritten, may have less precision than float32, in which they are reduced.
    `cannot_end` are the sentences whose hypotheses are too short to end.
    """
    log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
    for token in NEVER_PRODUCED:
        logits[..., token] = NOTHING
    logits[..., END].masked_fill_(cannot_end[:, None], NOTHING)
    values, tokens = stable_top_k(logits, k)
    return log_probs.gather(2, tokens).masked_fill_(values == NOTHING, NOTHING), tokens


def draw(
    logits: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], config: SearchConfig
) -> Int[Tensor, " rows"]:
    """Draw one token per row, as `sampling.draw`."""
    if config.top_k is not None:
        kept, ids = stable_top_k(logits, config.top_k)
        return ids.gather(1, _draw(kept, uniform, config))[:, 0]
    return _draw(logits, uniform, config)[:, 0]


def _draw(logits: Tensor, uniform: Tensor, config: SearchConfig) -> Int[Tensor, "rows 1"]:
    weights = (logits / config.temperature).softmax(dim=-1)
    return _crossing(nucleus(weights, config.top_p), uniform[:, None])


def nucleus(probabilities: Float[Tensor, "rows width"], top_p: float) -> Float[Tensor, "rows width"]:
    """Keep the nucleus of each row, as `sampling.nucleus`, in place."""
    if top_p < 1.0:
        ascending = _ascending(probabilities)
        left_out = torch.full_like(ascending[:, :1], 1 - top_p, dtype=widest_float(ascending.device))
        least = ascending.gather(1, _crossing(ascending, left_out))
        probabilities[probabilities < least] = 0.0
    return probabilities


def _ascending(values: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy()))  # 30 times faster than torch's sort
    return values.sort(dim=-1).values


def _crossing(weights: Float[Tensor, "rows width"], share: Float[Tensor, "rows 1"]) -> Int[Tensor, "rows 1"]:
    """The first place of each row where the cumulative sum of its weights exceeds `share` of the total.

    The sums have the precision of `share`. Two short cumulative sums, over blocks and then within one block,
    replace a long one. A long sum loses small weights in float32 and is slow in float64.
    """
    blocks = functional.pad(weights, (0, -weights.size(1) % _BLOCK_WIDTH)).unflatten(1, (-1, _BLOCK_WIDTH))
    block, rest = _cross(blocks.sum(dim=2), share.clamp(max=_largest_share(share)))
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, _BLOCK_WIDTH))[:, 0]
    place, _ = _cross(inside, rest)
    return (block * _BLOCK_WIDTH + place).clamp(max=weights.size(1) - 1)  # a place even where all are NaN


def _cross(
    weights: Float[Tensor, "rows width"], share: Float[Tensor, "rows 1"]
) -> tuple[Int[Tensor, "rows 1"], Float[Tensor, "rows 1"]]:
    """The first place whose cumulative sum exceeds the share, and the fraction of its weight needed."""
    cumulative = weights.cumsum(dim=1, dtype=share.dtype)
    wanted = share * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, wanted, right=True)
    place = place.clamp(max=weights.size(1) - 1)
    weight = weights.gather(1, place).to(share.dtype)
    before = cumulative.gather(1, place) - weight
    return place, ((wanted - before) / weight).clamp(0.0, _largest_share(share))


def _largest_share(share: Tensor) -> float:
    """The largest share: x times this rounds below x, so a cumulative sum always exceeds its share."""
    return 1 - torch.finfo(share.dtype).eps
