"""Word alignments and the coverage penalty of finished hypotheses, from the attention to the source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.errors import UsageError
from allyouneed.inference.beams import Hypothesis
from allyouneed.inference.engine import Engine
from allyouneed.inference.native_engine import EncodedSources, NativeEngine
from allyouneed.native.arrays import Float32

if TYPE_CHECKING:
    from allyouneed.model.transformer import Transformer

AttentionToSource = Callable[
    [Sequence[Sequence[int]], Sequence[Sequence[Sequence[int]]]],
    list[list[Float32[np.ndarray, "written source_len"]]],
]
"""Computes, for each source, the attention of its targets to it: a row per token and end symbol, a column per
token.

The column of the source's end symbol is left out, so rows sum to less than 1. Sources and targets have no end
symbols. Each source has at least one target.
"""

Finished = tuple[Sequence[int], list[Hypothesis]]
"""A source, with its end symbol, and its finished hypotheses."""

_MOST_TOKENS = 8_192
"""Number of tokens whose attention is computed together."""

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


def looking_back(
    engine: Engine, config: SearchConfig, n_best: int, known: EncodedSources | None = None
) -> Callable[[Sequence[Finished]], list[list[Hypothesis]]]:
    """Make the function that adds alignments and coverage penalties to finished hypotheses.

    The engine is ready when the function is called; the attention of several models is averaged. Sources that
    are `known` to a single model are not encoded again.

    Returns:
        A function of sources and their hypotheses. It returns, for each, the `n_best` by score with coverage
        penalty, with their alignments. If neither is requested, it returns them unchanged.

    Raises:
        UsageError: A model has no such layer or head, or alignments or a coverage penalty are requested of
            a model that is not a Transformer.
    """
    layer, head = config.alignment_layer, config.alignment_head
    if not (config.alignments or config.coverage_penalty):
        if layer or head:
            alignment_heads(engine.config, layer, head)
        return lambda ended: [found for _, found in ended]
    attentions = _attentions(engine, layer, head, known)

    def look_back(ended: Sequence[Finished]) -> list[list[Hypothesis]]:
        return [found for part in _in_parts(ended) for found in look_back_together(part)]

    def look_back_together(ended: Sequence[Finished]) -> Iterator[list[Hypothesis]]:
        sources = [source[:-1] for source, found in ended if found]
        targets = [[hypothesis.ids for hypothesis in found] for _, found in ended if found]
        of_models = [attention(sources, targets) for attention in attentions if targets]
        weights = zip(*of_models, strict=True)
        return (with_attention(found, next(weights)) if found else found for _, found in ended)

    def with_attention(
        found: list[Hypothesis], of_models: Sequence[Sequence[Float32[np.ndarray, "written source_len"]]]
    ) -> list[Hypothesis]:
        weights = [np.stack(of_target).mean(axis=0) for of_target in zip(*of_models, strict=True)]
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


def _attentions(
    engine: Engine, layer: int | None, head: int | None, known: EncodedSources | None
) -> list[AttentionToSource]:
    """The attention of each model, computed by the kernels where they know it."""
    if not engine.aligns:
        raise UsageError(
            "alignments and coverage_penalty look into the attention of a Transformer; leave them out "
            "for a model of another architecture",
            settings=["alignments", "coverage_penalty"],
        )
    found: list[AttentionToSource] = []
    for member in engine.members:
        if isinstance(member, NativeEngine):
            heads = alignment_heads(member.config, layer, head)
            found.append(partial(member.source_attention, *heads, known=known if member is engine else None))
            continue
        from allyouneed.inference.source_attention import source_attention

        for model in cast("Sequence[Transformer]", member.models):
            heads = alignment_heads(model.config, layer, head)
            found.append(partial(source_attention, model, *heads))
    return found


def _in_parts(ended: Sequence[Finished]) -> Iterator[list[Finished]]:
    """Sources and their hypotheses in parts of so many tokens, as memory grows with them."""
    part, num = list[Finished](), 0
    for each in ended:
        num += len(each[0]) + sum(len(hypothesis.ids) for hypothesis in each[1])
        part.append(each)
        if num > _MOST_TOKENS:
            yield part
            part, num = [], 0
    if part:
        yield part


def coverage_penalty(weights: Float32[np.ndarray, "written source_len"], beta: float) -> float:
    """The term added to a score: `beta * sum_i log(min(sum_j a_ij, 1))`.

    Source: Wu et al. 2016, equation 14; a_ij is the attention of target token j to source token i.
    """
    if beta == 0:
        return 0.0
    smallest = np.finfo(np.float32).tiny  # one unattended token must not make all scores -inf
    attended = np.clip(weights.sum(axis=0), smallest, 1.0).astype(np.float64)
    return beta * float(np.log(attended).sum())


def align(weights: Float32[np.ndarray, "written source_len"]) -> Links:
    """Link each source token to the target token that attends to it most; ties go to the first.

    This recovers a known alignment better than linking each target token to a source token: see
    docs/alignments-and-shortlists.md.
    """
    tokens = weights[:-1]  # without the end symbol
    if not len(tokens):
        return []
    return list(enumerate(tokens.argmax(axis=0).tolist()))  # argmax takes the first of ties


def align_words(
    links: Links, source_words: Sequence[int | None], target_words: Sequence[int | None]
) -> Links:
    """Convert links between pieces to links between words.

    Words have indices; a piece that belongs to no word has None.
    """
    found = {(source_words[i], target_words[j]) for i, j in links}
    return sorted((i, j) for i, j in found if i is not None and j is not None)
