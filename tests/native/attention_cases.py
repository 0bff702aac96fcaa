"""Cases of `attention.c`."""

from typing import Any

import torch
from tests.native.cases import Address, Case
from tests.native.references import (
    ATTENTION,
    HEAD_WIDTHS,
    NUM_HEADS,
    attention,
    attention_case,
    biases_case,
    keys_values_case,
    lists_of_rows,
    stored_rows,
)
from torch import Tensor
from torch.nn import functional

from allyouneed.native.library import FORMS

ROW_FORMS = "float32", "bfloat16"


def attention_cases(lanes: int) -> list[Case]:
    return [
        *(store_case(lanes, *widths, form) for widths in HEAD_WIDTHS for form in ROW_FORMS),
        *(
            attend_case(lanes, *widths, form, biased=biased)
            for widths in HEAD_WIDTHS
            for form in ROW_FORMS
            for biased in (False, True)
        ),
    ]


def store_case(lanes: int, d_k: int, d_v: int, form: str) -> Case:
    """Rows are stored to the bit, from tokens that lie together or apart."""
    case, keys_values = Case(f"store_keys_values {d_k} {d_v} {form}"), keys_values_case(NUM_HEADS, d_k, d_v)
    heads = heads_structure(case, NUM_HEADS, d_k, d_v, form)
    expected = stored_rows(keys_values, NUM_HEADS, d_k, d_v, form, lanes)
    apart = functional.pad(keys_values, (0, 5))
    for tokens in (keys_values, apart):
        rows = case.room(expected.numel(), expected.dtype)
        case.call("store_keys_values", heads, len(tokens), case.tensor(tokens), tokens.size(1), rows)
        case.expect(rows, expected, dtype=expected.dtype)
    return case


def attend_case(lanes: int, d_k: int, d_v: int, form: str, *, biased: bool) -> Case:
    """Queries one by one against equation 1, and in groups against the same bits."""
    case = Case(f"attend {d_k} {d_v} {form}{' with biases' * biased}")
    tensors, lists = attention_case(d_k, d_v)
    slopes, positions = biases_case() if biased else (None, None)
    heads = heads_structure(case, NUM_HEADS, d_k, d_v, form, slopes)
    queries = case.tensor(tensors[0]), tensors[0].size(1)
    rows = case.tensor(stored_rows(torch.cat(tensors[1:], dim=1), NUM_HEADS, d_k, d_v, form, lanes))
    alone, grouped = (case.room(len(lists) * NUM_HEADS * d_v) for _ in range(2))
    for out, group in ((alone, 1), (grouped, 3)):
        attended = case.structure("attended", **attended_fields(case, lists, group, positions))
        case.call("attend", heads, len(lists), *queries, rows, attended, out, 1)
    rounded = [tensors[0], *(tensor.to(getattr(torch, form)) for tensor in tensors[1:])]
    case.expect_close(alone, attention(rounded, lists, slopes, positions), **ATTENTION)
    case.expect_same_bits(alone, grouped)
    return case


def heads_structure(
    case: Case, num_heads: int, d_k: int, d_v: int, form: str, slopes: Tensor | None = None
) -> Address:
    return case.structure("heads", **heads_fields(case, num_heads, d_k, d_v, form, slopes))


def heads_fields(
    case: Case, num_heads: int, d_k: int, d_v: int, form: str, slopes: Tensor | None = None
) -> dict[str, Any]:
    fields = {"num_heads": num_heads, "d_k": d_k, "d_v": d_v, "form": FORMS.index(form)}
    return fields if slopes is None else {**fields, "slopes": case.tensor(slopes)}


def attended_fields(
    case: Case, lists: list[list[int]], group: int = 1, positions: Tensor | None = None
) -> dict[str, Any]:
    rows, starts, counts = map(case.tensor, lists_of_rows(lists))
    fields = {"rows": rows, "starts": starts, "counts": counts, "group": group}
    return fields if positions is None else {**fields, "positions": case.tensor(positions)}
