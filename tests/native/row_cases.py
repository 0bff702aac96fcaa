"""Cases of `rows.c`."""

import math

import torch
from tests.native.cases import Address, Case
from tests.native.references import (
    ACTIVATION,
    EXACT,
    LOG_PROBS,
    NORM,
    VOCABULARIES,
    WIDTHS,
    activated,
    activation_case,
    logits_case,
    most_probable,
    norm_case,
    normed_sum,
    random,
)
from torch import Tensor

from allyouneed.model.position_tables import rotations
from allyouneed.model.relative_positions import RotaryPositions
from allyouneed.native.gradient_kernels import form_of
from allyouneed.native.stack import ACTIVATIONS
from allyouneed.symbols import END


def row_cases() -> list[Case]:
    return [
        *map(add_norm_case, WIDTHS),
        *map(turn_case, ["float32", "bfloat16"]),
        *map(activation_case_of, ACTIVATIONS),
        *map(normalisers_case, VOCABULARIES),
        *map(top_case, VOCABULARIES),
        impossible_tokens_case(),
    ]


def add_norm_case(width: int) -> Case:
    """The norm of a sum, of a sum in the place of x, and of x alone."""
    case = Case(f"add_norm {width}")
    x, y, norm = norm_case(width)
    gains, biases = map(case.tensor, (norm.weight, norm.bias))
    fields = case.structure("norm", gains=gains, biases=biases, epsilon=norm.eps)
    left, right, out, alone = case.tensor(x), case.tensor(y), *(case.room(x.numel()) for _ in range(2))
    case.call("add_norm", len(x), width, left, None, fields, alone, 1)
    case.call("add_norm", len(x), width, left, right, fields, out, 1)
    case.call("add_norm", len(x), width, left, right, fields, left, 1)
    case.expect_close(alone, normed_sum(x, torch.zeros_like(x), norm), **NORM)
    case.expect_close(out, normed_sum(x, y, norm), **NORM)
    case.expect_same_bits(out, left)
    return case


def turn_case(form: str) -> Case:
    """Two heads of rows that are followed by others, turned, and turned back in their place."""
    case, dtype = Case(f"turn_pairs {form}"), getattr(torch, form)
    num_rows, d_k, stride = 23, 20, 50
    x = random(num_rows, stride, seed=1).to(dtype)
    positions = torch.arange(num_rows) * 7 % 11
    sizes = {"num_heads": 2, "d_k": d_k, "stride": stride}
    of_rows = {
        "positions": case.tensor(positions),
        "angles": case.tensor(torch.from_numpy(rotations(11, d_k))),
    }
    *outs, back = (case.room(num_rows * 2 * d_k, dtype) for _ in range(3))
    turn = case.structure("turn", **sizes, out_stride=2 * d_k, **of_rows, is_back=0)
    for threads, out in zip((1, 2, 2), (*outs, back), strict=True):
        case.call("turn_pairs", turn, num_rows, form_of(dtype), case.tensor(x), out, threads)
    case.expect_same_bits(*outs)
    heads = x[:, : 2 * d_k].float().view(1, num_rows, 2, d_k).transpose(1, 2)
    turned = RotaryPositions(d_k).turn(heads, positions[None]).transpose(1, 2)[0].flatten()
    close = {"float32": 2e-6, "bfloat16": 0.02}[form]
    case.expect(outs[0], turned.to(dtype), torch.full((num_rows * 2 * d_k,), close), dtype)
    again = case.structure("turn", **sizes | {"stride": 2 * d_k}, out_stride=2 * d_k, **of_rows, is_back=1)
    case.call("turn_pairs", again, num_rows, form_of(dtype), back, back, 1)
    case.expect(back, x[:, : 2 * d_k].flatten(), torch.full((num_rows * 2 * d_k,), 2 * close), dtype)
    return case


def activation_case_of(name: str) -> Case:
    case, x = Case(f"activate {name}"), activation_case()
    values = case.tensor(x)
    case.call("activate", ACTIVATIONS.index(name), len(x), values, 1)
    case.expect_close(values, activated(name, x), **ACTIVATION)
    return case


def normalisers_case(width: int) -> Case:
    case = Case(f"normalisers_of {width}")
    logits = logits_case(width)
    normalisers = case.room(len(logits))
    case.call("normalisers_of", len(logits), width, case.tensor(logits), normalisers)
    case.expect_close(normalisers, logits.double().logsumexp(-1), **LOG_PROBS)
    return case


def top_case(width: int) -> Case:
    """The best tokens, with computed normalisers and with given ones: zeros leave the logits.

    Every third row cannot end.
    """
    case, k, excluded = Case(f"top_log_probs {width}"), 5, (0, 3)
    logits = logits_case(width)
    logits[:, END] = 9.0
    cannot_end = torch.arange(len(logits)) % 3 == 0
    given = case.tensor(torch.zeros(len(logits)))
    for rows in (None, cannot_end):
        expected, ids = most_probable(logits, k, excluded, rows)
        for normalisers, values in ((None, expected), (given, logits.gather(1, ids))):
            tolerance = LOG_PROBS if normalisers is None else EXACT
            found, found_ids = call_top(case, logits, normalisers, k, excluded, rows)
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
    case: Case,
    logits: Tensor,
    normalisers: Address | None,
    k: int,
    excluded: tuple[int, ...],
    cannot_end: Tensor | None = None,
) -> tuple[Address, Address]:
    """Call `top_log_probs`; returns its values and ids."""
    values, ids = case.room(len(logits) * k), case.room(len(logits) * k, torch.int64)
    never = case.tensor(torch.tensor(excluded))
    endless = None if cannot_end is None else case.tensor(cannot_end)
    rows = *logits.shape, case.tensor(logits), normalisers, never, len(excluded), endless, END
    case.call("top_log_probs", *rows, k, values, ids, 1)
    return values, ids
