"""Cases of `softmax.c`."""

import torch
from tests.native.cases import Address, Case
from tests.native.references import LOG_PROBS, NORM, VOCABULARIES, WIDTHS, logits_case, random
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
        *(equation_1_case(width, per_query=per_query) for width in WIDTHS for per_query in (True, False)),
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
    fields = fields_of(case, scores, mask)
    form, rows, of_scores = (
        form_of(scores.dtype),
        case.tensor(scores),
        case.room(scores.numel(), scores.dtype),
    )
    case.call("attention_softmax", fields, form, rows, threads)
    num_rows, given = sentences * heads * queries, case.tensor(gradient)
    case.call("attention_softmax_backward", num_rows, width, form, rows, given, _SCALE, of_scores, threads)
    return [rows, of_scores]


def fields_of(case: Case, scores: Tensor, mask: Tensor) -> Address:
    sentences, heads, queries, width = scores.shape
    return case.structure(
        "scores",
        num_sentences=sentences,
        num_heads=heads,
        num_queries=queries,
        num_keys=width,
        sentence_stride=mask[0].numel(),
        query_stride=width if mask.size(2) > 1 else 0,
        mask=case.tensor(mask),
        scale=_SCALE,
    )


def equation_1_case(num_keys: int, *, per_query: bool) -> Case:
    """Equation 1 with its gradients, of one thread and of two; the heads of keys are among other values."""
    case = Case(f"attention {num_keys} mask {'per query' if per_query else 'per sentence'}")
    (sentences, heads, queries), d_k, d_v = _SHAPE, 20, 9
    read = [
        random(sentences, n, 3, heads * d, seed=n + d)
        for n, d in ((queries, d_k), (num_keys, d_k), (num_keys, d_v))
    ]
    mask = random(sentences, 1, queries if per_query else 1, num_keys, seed=3) > 0
    mask[..., num_keys // 2] = True
    gradient = random(sentences, queries, heads * d_v, seed=4)
    exact = [each[:, :, 1].double().requires_grad_() for each in read]
    query, key, value = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in exact)
    weights = (_SCALE * query @ key.mT).masked_fill(~mask, float("-inf")).softmax(-1)
    out = (weights @ value).transpose(1, 2).flatten(2)
    expected = [weights, out, *torch.autograd.grad(out, exact, gradient.double())]

    def headed(rows: Address, width: int, length: int) -> Address:
        return case.structure("headed", values=rows, sentence_stride=length * width, row_stride=width)

    found = []
    for threads in (1, 2):
        given = [
            headed(case.tensor(each) + 4 * each.size(-1), 3 * each.size(-1), each.size(1)) for each in read
        ]
        rooms = [case.room(each.numel()) for each in expected]
        fields = fields_of(case, weights, mask)
        of_out = headed(rooms[1], heads * d_v, queries)
        case.call("attention_forward", fields, d_k, d_v, *given, rooms[0], of_out, threads)
        of_read = [
            headed(room, each.size(-1), each.size(1)) for room, each in zip(rooms[2:], read, strict=True)
        ]
        of_gradient = headed(case.tensor(gradient), heads * d_v, queries)
        case.call("attention_backward", fields, d_k, d_v, *given, rooms[0], of_gradient, *of_read, threads)
        found.append(rooms)
    for one, two, right in zip(*found, expected, strict=True):
        case.expect_same_bits(one, two)
        case.expect_close(one, right.detach(), **NORM)
    return case


def rounding(dtype: torch.dtype) -> float:
    """The largest relative error of a probability in a type."""
    return 4e-6 if dtype == torch.float32 else torch.finfo(dtype).eps / 2 + 4e-6
