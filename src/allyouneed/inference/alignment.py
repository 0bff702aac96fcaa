"""Word alignments and the coverage penalty of finished hypotheses, from the attention to the source."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import pad
from allyouneed.model import EncoderDecoder, Transformer
from allyouneed.model.layers import DecoderLayer
from allyouneed.model.masks import padding_mask
from allyouneed.symbols import END, START

Links = list[tuple[int, int]]
"""Aligned positions (source, target), from 0, ascending."""


def alignment_heads(config: ModelConfig, layer: int | None, head: int | None) -> tuple[int, slice]:
    """The decoder layer, from 0, and its heads, whose mean attention gives alignments.

    The default is all heads of the penultimate layer, which aligns best (Garg et al. 2019). A decoder of two
    layers uses its last: a first layer attends to the source of the token that it reads, not of the one that
    it predicts. `layer` and `head` count from 1.

    Raises:
        UsageError: The model has no such layer or head.
    """
    limits = {"layer": (layer, config.decoder_layers), "head": (head, config.num_heads)}
    for name, (number, most) in limits.items():
        if number is not None and number > most:
            raise UsageError(f"search.alignment_{name} = {number}: the model's decoder has {most}")
    last = config.decoder_layers
    heads = slice(None) if head is None else slice(head - 1, head)
    return (layer or min(last, max(2, last - 1))) - 1, heads


class SourceAttention:
    """Attention of each target token to each source token, from one layer of the decoder.

    Layer and head count from 1; see `alignment_heads` for the defaults.

    Raises:
        UsageError: The model has no such layer or head.
    """

    def __init__(self, model: Transformer, layer: int | None = None, head: int | None = None) -> None:
        self._model = model
        self._layer, self._heads = alignment_heads(model.config, layer, head)

    def __call__(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[Float[Tensor, "written source_len"]]:
        """Compute the weights of each target: a row per token and end symbol, a column per source token.

        The column of the source's end symbol is left out, so rows sum to less than 1. Sources are computed
        one at a time because the last bits of the weights depend on the shape of the batch. Source and
        targets have no end symbols.
        """
        model = self._model
        device = next(model.parameters()).device
        ids = model.read_of(pad([[*source, END]], device))
        # An output cut at the last learned position has none for the next step, whose row is then zero.
        most = model.config.max_positions if model.config.positions == "learned" else None
        written = pad([[START, *target][:most] for target in targets], device)
        memory = model.encode(ids).expand(len(targets), -1, -1)
        source_mask, target_mask = padding_mask(ids), model.self_mask("target", written)
        x = model.embed("target", written)
        *below, layer = cast("list[DecoderLayer]", list(model.decoder))[: self._layer + 1]
        for each in below:
            x = each(x, memory, target_mask, source_mask)
        recorded: list[Tensor] = []

        def record(x: Tensor) -> Tensor:
            attention = layer.cross_attention
            key, _ = attention.project_memory(memory)
            recorded.append(attention.plain.weights(attention.project_query(x), key, source_mask))
            return x

        layer.forward_with(x, partial(layer.self_attention, mask=target_mask), record)
        weights = recorded[0][:, self._heads].float().mean(dim=1)
        missing = 1 + max(map(len, targets)) - weights.size(1)
        weights = functional.pad(weights, (0, 0, 0, missing))
        return [
            rows[: len(target) + 1, :-1].cpu() for rows, target in zip(weights, targets, strict=True)
        ]  # (target_len + 1, source_len) each


def looking_back(
    models: Sequence[EncoderDecoder], config: SearchConfig, n_best: int
) -> Callable[[Sequence[int], list[Hypothesis]], list[Hypothesis]]:
    """Make the function that adds alignments and coverage penalties to finished hypotheses.

    The models are in evaluation mode when the function is called; the attention of several is averaged.

    Returns:
        A function of a source, with its end symbol, and its hypotheses. It returns the `n_best` by score with
        coverage penalty, with their alignments. If neither is requested, it returns them unchanged.

    Raises:
        UsageError: A model has no such layer or head, or alignments or a coverage penalty are requested of
            a model that is not a Transformer.
    """
    transformers = [model for model in models if isinstance(model, Transformer)]
    if (config.alignments or config.coverage_penalty) and len(transformers) < len(models):
        raise UsageError(
            "alignments and coverage_penalty look into the attention of a Transformer; leave them out "
            "for a model of another architecture",
            settings=["alignments", "coverage_penalty"],
        )
    attentions = [
        SourceAttention(model, config.alignment_layer, config.alignment_head) for model in transformers
    ]

    def look_back(source: Sequence[int], found: list[Hypothesis]) -> list[Hypothesis]:
        if not found or not (config.alignments or config.coverage_penalty):
            return found
        targets = [hypothesis.ids for hypothesis in found]
        of_models = [attention(source[:-1], targets) for attention in attentions]
        weights = [torch.stack(of_target).mean(dim=0) for of_target in zip(*of_models, strict=True)]
        scored = [
            replace(
                hypothesis,
                score=hypothesis.score + coverage_penalty(rows, config.coverage_penalty),
                alignment=align(rows) if config.alignments else [],
            )
            for hypothesis, rows in zip(found, weights, strict=True)
        ]
        return sorted(scored, key=lambda hypothesis: (not hypothesis.ended, -hypothesis.score))[:n_best]

    return look_back


def coverage_penalty(weights: Float[Tensor, "written source_len"], beta: float) -> float:
    """The term added to a score: `beta * sum_i log(min(sum_j a_ij, 1))`.

    Source: Wu et al. 2016, equation 14; a_ij is the attention of target token j to source token i.
    """
    if beta == 0:
        return 0.0
    smallest = torch.finfo(weights.dtype).tiny  # one unattended token must not make all scores -inf
    return beta * float(weights.sum(dim=0).clamp(smallest, 1.0).double().log().sum())


def align(weights: Float[Tensor, "written source_len"]) -> Links:
    """Link each source token to the target token that attends to it most; ties go to the first.

    This recovers a known alignment better than linking each target token to a source token: see
    docs/alignments-and-shortlists.md.
    """
    tokens = weights[:-1]  # without the end symbol
    if not len(tokens):
        return []
    return list(enumerate(tokens.argmax(dim=0).tolist()))  # argmax takes the first of ties


def align_words(
    links: Links, source_words: Sequence[int | None], target_words: Sequence[int | None]
) -> Links:
    """Convert links between pieces to links between words.

    Words have indices; a piece that belongs to no word has None.
    """
    found = {(source_words[i], target_words[j]) for i, j in links}
    return sorted((i, j) for i, j in found if i is not None and j is not None)
