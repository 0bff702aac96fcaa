"""Cases of `softmax.c`."""

import torch
from tests.native.cases import Address, Case
from tests.native.references import LOG_PROBS, VOCABULARIES, WIDTHS, logits_case, random
from torch import Tensor

from allyouneed.native.gradient_kernels import TYPES, form_of

_SCALE = 0.3
_SHAPE = 3, 2, 5
"""Sentences, heads and queries."""


def softmax_cases() -> list[Case]:
    return [
        *(softmax_case(dtype, width) for dtype in TYPES for width in VOCABULARIES),
        *(
            attention_case(dtype, width, per_query=per_query)
            for dtype in TYPES
            for width in WIDTHS
            for per_query in (True, False)
        ),
    ]


def softmax_case(dtype: torch.dtype, width: int) -> Case:
    """One thread and two give the same bits."""
    case = Case(f"softmax_rows {dtype} {width}")
    logits = logits_case(width).to(dtype)
    expected, found = logits.double(), []
    for threads in (1, 2):
        rows, normalisers = case.tensor(logits), case.room(len(logits))
        case.call("softmax_rows", *logits.shape, form_of(dtype), rows, normalisers, threads)
        found += [rows, normalisers]
    case.expect_close(found[1], expected.logsumexp(-1), **LOG_PROBS)
    probabilities = expected.softmax(-1)
    case.expect(found[0], probabilities, rounding(dtype) * probabilities, dtype)
    for one, two in zip(found[:2], found[2:], strict=True):
        case.expect_same_bits(one, two)
    return case


def attention_case(dtype: torch.dtype, width: int, *, per_query: bool) -> Case:
    """Weights where a mask is open, one for each query or one for all, and the gradient of the scores."""
    case = Case(f"attention_softmax {dtype} {width} mask {'per query' if per_query else 'per sentence'}")
    scores, gradient = (random(*_SHAPE, width, seed=seed).to(dtype) for seed in (1, 2))
    sentences, _, queries = _SHAPE
    mask = random(sentences, 1, queries if per_query else 1, width, seed=3) > 0
    mask[..., width // 2] = True
    exact = scores.double().requires_grad_()
    weights = (_SCALE * exact).masked_fill(~mask, float("-inf")).softmax(-1)
    found = [attend(case, scores, gradient, mask, threads) for threads in (1, 2)]
    for one, two in zip(*found, strict=True):
        case.expect_same_bits(one, two)
    case.expect(found[0][0], weights, rounding(dtype) * weights, dtype)
    (of_scores,) = torch.autograd.grad(weights, exact, gradient.double())
    largest = _SCALE * weights * gradient.double().abs().amax(-1, keepdim=True)
    case.expect(found[0][1], of_scores, 4 * rounding(dtype) * largest, dtype)
    return case


def attend(case: Case, scores: Tensor, gradient: Tensor, mask: Tensor, threads: int) -> list[Address]:
    """Call both functions; the weights, and the gradient of the scores."""
    sentences, heads, queries, width = scores.shape
    per_query = mask.size(2) > 1
    fields = case.structure(
        "scores",
        num_sentences=sentences,
        num_heads=heads,
        num_queries=queries,
        num_keys=width,
        sentence_stride=mask[0].numel(),
        query_stride=width if per_query else 0,
        mask=case.tensor(mask),
        scale=_SCALE,
    )
    form, rows, of_scores = (
        form_of(scores.dtype),
        case.tensor(scores),
        case.room(scores.numel(), scores.dtype),
    )
    case.call("attention_softmax", fields, form, rows, threads)
    num_rows, given = sentences * heads * queries, case.tensor(gradient)
    case.call("attention_softmax_backward", num_rows, width, form, rows, given, _SCALE, of_scores, threads)
    return [rows, of_scores]


def rounding(dtype: torch.dtype) -> float:
    """The largest relative error of a probability in a type."""
    return 4e-6 if dtype == torch.float32 else torch.finfo(dtype).eps / 2 + 4e-6
