"""What the attention to the source says of finished hypotheses: word alignments and the coverage penalty."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

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
"""Positions (source, target) from 0 that belong together, ascending."""


def alignment_heads(config: ModelConfig, layer: int | None, head: int | None) -> tuple[int, slice]:
    """The layer of the decoder, from 0, and its heads, whose mean gives alignments.

    By default it is all heads of the last layer but one, where alignments are found best (Garg et al. 2019);
    of two layers the last, as a first layer attends to the source of the token that it reads and not of the
    one that it writes.

    Args:
        config: Configuration of the model.
        layer: From 1, if another is wanted.
        head: From 1, if one is wanted.

    Raises:
        UsageError: The model has no such layer or head.
    """
    limits = {"layer": (layer, config.num_layers), "head": (head, config.num_heads)}
    for name, (number, most) in limits.items():
        if number is not None and number > most:
            raise UsageError(f"search.alignment_{name} = {number}: the model's decoder has {most}")
    last = config.num_layers
    heads = slice(None) if head is None else slice(head - 1, head)
    return (layer or min(last, max(2, last - 1))) - 1, heads


class SourceAttention:
    """How much each token that is written takes of each source token, read from one layer of the decoder.

    Args:
        model: In evaluation mode.
        layer: Decoder layer, from 1; by default that of `alignment_heads`.
        head: From 1; the mean of all if not given.

    Raises:
        UsageError: The model has no such layer or head.
    """

    def __init__(self, model: Transformer, layer: int | None = None, head: int | None = None) -> None:
        self._model = model
        self._layer, self._heads = alignment_heads(model.config, layer, head)

    def __call__(
        self, source: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[Float[Tensor, "written source_len"]]:
        """The weights of each target: rows for its tokens and its end, a column for each source token.

        What the source's end symbol takes is left out, so that a row sums to less than 1. One source is
        computed at a time, as the last bits of the weights depend on the shape of what is computed together.

        Args:
            source: Token ids without end symbol.
            targets: Token ids of translations of it, likewise.
        """
        model = self._model
        device = next(model.parameters()).device
        ids, written = pad([[*source, END]], device), pad([[START, *target] for target in targets], device)
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
        return [
            rows[: len(target) + 1, :-1].cpu() for rows, target in zip(weights, targets, strict=True)
        ]  # (target_len + 1, source_len) each


def looking_back(
    models: Sequence[EncoderDecoder], config: SearchConfig, n_best: int
) -> Callable[[Sequence[int], list[Hypothesis]], list[Hypothesis]]:
    """What is done to the hypotheses of a sentence when they are finished.

    Args:
        models: In evaluation mode when it is done; of several the mean attention is taken.
        config: Whether alignments are wanted, and the factor of the coverage penalty.
        n_best: How many are left of those that were found.

    Returns:
        A function of a source, with its end symbol, and its hypotheses: the `n_best` of these by scores with
        coverage penalty, with their alignments. It computes nothing if neither is wanted.

    Raises:
        UsageError: A model has no such layer or head, or is no Transformer and either is wanted.
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
        return sorted(scored, key=lambda hypothesis: -hypothesis.score)[:n_best]

    return look_back


def coverage_penalty(weights: Float[Tensor, "written source_len"], beta: float) -> float:
    """What is added to a score: `beta * sum_i log(min(sum_j a_ij, 1))`.

    Source: Wu et al. 2016, equation 14, where a_ij is what target token j takes of source token i.
    """
    if beta == 0:
        return 0.0
    smallest = torch.finfo(weights.dtype).tiny  # a token that got nothing must not make all scores equal
    return beta * float(weights.sum(dim=0).clamp(smallest, 1.0).double().log().sum())


def align(weights: Float[Tensor, "written source_len"]) -> Links:
    """Each source token with the target token that takes most of it; the first of equal ones.

    It finds the links of a known alignment better than the source token of which each target token takes
    most: see docs/alignments-and-shortlists.md.
    """
    tokens = weights[:-1]  # without the end symbol
    if not len(tokens):
        return []
    return list(enumerate(tokens.argmax(dim=0).tolist()))  # the first of equal ones


def align_words(
    links: Links, source_words: Sequence[int | None], target_words: Sequence[int | None]
) -> Links:
    """Links of words from those of their pieces.

    Args:
        links: Links between pieces.
        source_words: The number of the word that each piece is of, if it is of one.
        target_words: The same for the target.
    """
    found = {(source_words[i], target_words[j]) for i, j in links}
    return sorted((i, j) for i, j in found if i is not None and j is not None)
