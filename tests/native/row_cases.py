"""Cases of `rows.c`."""

import math

import torch
from tests.native.cases import Address, Case
from tests.native.references import (
    EXACT,
    LOG_PROBS,
    NORM,
    VOCABULARIES,
    WIDTHS,
    logits_case,
    most_probable,
    norm_case,
    normed_sum,
)
from torch import Tensor


def row_cases() -> list[Case]:
    return [
        *map(add_norm_case, WIDTHS),
        *map(normalisers_case, VOCABULARIES),
        *map(top_case, VOCABULARIES),
        impossible_tokens_case(),
    ]


def add_norm_case(width: int) -> Case:
    case = Case(f"add_norm {width}")
    x, y, norm = norm_case(width)
    out = case.room(x.numel())
    tensors = map(case.tensor, (x, y, norm.weight, norm.bias))
    case.call("add_norm", len(x), width, *tensors, norm.eps, out, 1)
    case.expect_close(out, normed_sum(x, y, norm), **NORM)
    return case


def normalisers_case(width: int) -> Case:
    case = Case(f"normalisers_of {width}")
    logits = logits_case(width)
    normalisers = case.room(len(logits))
    case.call("normalisers_of", len(logits), width, case.tensor(logits), normalisers, 1)
    case.expect_close(normalisers, logits.double().logsumexp(-1), **LOG_PROBS)
    return case


def top_case(width: int) -> Case:
    """The best tokens, with computed normalisers and with given ones: zeros leave the logits."""
    case, k, excluded = Case(f"top_log_probs {width}"), 6, (0, 3)
    logits = logits_case(width)
    expected, ids = most_probable(logits, k, excluded)
    given = case.tensor(torch.zeros(len(logits)))
    for normalisers, values in ((None, expected), (given, logits.gather(1, ids))):
        tolerance = LOG_PROBS if normalisers is None else EXACT
        found, found_ids = call_top(case, logits, normalisers, k, excluded)
        case.expect_close(found, values, **tolerance)
        case.expect(found_ids, ids, dtype=torch.int64)
    return case


def impossible_tokens_case() -> Case:
    case = Case("top_log_probs of tokens that are impossible or excluded")
    logits = torch.tensor([[2.0, -math.inf, 5.0, 5.0, 1.0]])
    found, found_ids = call_top(case, logits, case.tensor(torch.zeros(1)), k=5, excluded=(4,))
    case.expect(found, torch.tensor([5.0, 5, 2, -math.inf, -math.inf]))
    case.expect(found_ids, torch.tensor([2, 3, 0]), dtype=torch.int64)
    return case


def call_top(
    case: Case, logits: Tensor, normalisers: Address | None, k: int, excluded: tuple[int, ...]
) -> tuple[Address, Address]:
    """Call `top_log_probs`; returns its values and ids."""
    values, ids = case.room(len(logits) * k), case.room(len(logits) * k, torch.int64)
    never = case.tensor(torch.tensor(excluded))
    rows = *logits.shape, case.tensor(logits)
    case.call("top_log_probs", *rows, normalisers, never, len(excluded), k, values, ids, 1)
    return values, ids
