"""Forced decoding: how probable a model finds given targets, for perplexity (paper 6.2) and rescoring."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from allyouneed.data.batching import length_batches
from allyouneed.inference.engine import pad
from allyouneed.model import Transformer
from allyouneed.model.evaluation_mode import evaluation_mode
from allyouneed.symbols import END, PADDING, START

DEFAULT_BATCH_TOKENS = 4_096
_PROJECTED_ROWS = 512
"""Positions whose logits, as wide as the vocabulary, are in memory at once."""


@dataclass(frozen=True)
class TargetScore:
    """How probable a target is, given its source."""

    token_log_probs: list[float]
    """Natural logarithm of the probability of each token, the end symbol's last."""

    @property
    def log_prob(self) -> float:
        """Of the whole target; unnormalised."""
        return sum(self.token_log_probs)


def score_targets(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
) -> list[TargetScore]:
    """The log-probability of each target given its source, in order.

    Args:
        model: The model.
        sources: Token ids without end symbol.
        targets: Likewise, one for each source.
        batch_tokens: Tokens of either side of a batch, padding and end symbols included.
    """
    longer = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    scores: dict[int, TargetScore] = {}
    for batch in length_batches(longer, batch_tokens=batch_tokens):
        token_log_probs = _score_batch(model, [sources[i] for i in batch], [targets[i] for i in batch])
        scores.update(zip(batch.tolist(), map(TargetScore, token_log_probs), strict=True))
    return [scores[index] for index in range(len(longer))]


def _score_batch(
    model: Transformer, sources: list[Sequence[int]], targets: list[Sequence[int]]
) -> list[list[float]]:
    device = next(model.parameters()).device
    source = pad([[*ids, END] for ids in sources], device)
    target_input = pad([[START, *ids] for ids in targets], device)
    target_output = pad([[*ids, END] for ids in targets], device)
    wanted = target_output != PADDING
    with evaluation_mode(model):
        hidden = model(source, target_input)[wanted]  # (tokens, d_model)
        log_probs = _log_probs(model, hidden, target_output[wanted])
    return [row.tolist() for row in torch.split(log_probs, wanted.sum(dim=1).tolist())]


def _log_probs(
    model: Transformer, hidden: Tensor, tokens: Int[Tensor, " tokens"]
) -> Float64[Tensor, " tokens"]:
    chunks = []
    for rows, ids in zip(*(torch.split(x, _PROJECTED_ROWS) for x in (hidden, tokens)), strict=True):
        log_probs = model.project(rows).log_softmax(dim=-1, dtype=torch.float32)
        chunks.append(log_probs.gather(1, ids[:, None])[:, 0])
    return torch.cat(chunks).double()
