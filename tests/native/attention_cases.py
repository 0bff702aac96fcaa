"""Cases of `attention.c`."""

from typing import Any

import torch
from tests.native.cases import Address, Case
from tests.native.driver import Target
from tests.native.places import Widths, places_of
from tests.native.references import (
    HEAD_WIDTHS,
    NUM_HEADS,
    attention,
    attention_case,
    biases_case,
    keys_values_case,
    lists_of_rows,
    rounded_to_steps,
)
from torch import Tensor
from torch.nn import functional

from allyouneed.native.library import FORMS

GROUPS = 3, 4, 8
"""Numbers of queries that are computed together; four with the same rows are mixed together."""


def attention_cases(target: Target) -> list[Case]:
    return [
        *(
            store_case(target, Widths(NUM_HEADS, *widths), form, apart=apart)
            for widths in HEAD_WIDTHS
            for form in FORMS
            for apart in (0, 5)
        ),
        *(
            attend_case(target, Widths(NUM_HEADS, *widths), form, biased=biased)
            for widths in HEAD_WIDTHS
            for form in FORMS
            for biased in (False, True)
        ),
    ]


def store_case(target: Target, widths: Widths, form: str, *, apart: int) -> Case:
    """Rows are stored exactly, from tokens that lie together or apart."""
    case = Case(f"store_keys_values {widths.d_k} {widths.d_v} {form}{' apart' * bool(apart)}")
    places, keys_values = places_of(widths, form, target), keys_values_case(*widths)
    rows = stored(case, target, widths, form, functional.pad(keys_values, (0, apart)))
    both = keys_values.split([widths.num_heads * widths.d_k, widths.num_heads * widths.d_v], dim=1)
    keys, values = (part.unflatten(1, (widths.num_heads, -1)) for part in both)
    offset = target.key_offset(form)
    for row in range(len(keys_values)):
        start = rows + row * places.row
        expect_heads(case, start, keys[row], places.key_space, form, offset)
        expect_heads(case, start + places.values, values[row], places.value_space, form, 0)
        if form == "int8":
            steps = [rounded_to_steps(part[row])[1].flatten() for part in (keys, values)]
            case.expect(start + places.steps, torch.cat(steps))
    return case


def expect_heads(case: Case, start: Address, heads: Tensor, space: int, form: str, offset: int) -> None:
    """Expect keys or values of a row, (heads, width), each head filled up with zeros to a number of values.

    In int8, a head with an infinite number or none has such a step size, and any integers.
    """
    filled = functional.pad(heads, (0, space - heads.size(1)))
    if form == "float32":
        case.expect(start, filled.view(torch.int32), dtype=torch.int32)
    elif form == "bfloat16":
        case.expect(start, filled.bfloat16(), dtype=torch.bfloat16)
    else:
        steps, size = rounded_to_steps(filled)
        any_byte = torch.where(size.isfinite(), 0.0, 255.0)
        stored_bytes = (steps.nan_to_num(0, 0, 0) + offset) % 256
        case.expect(start, stored_bytes, any_byte, dtype=torch.uint8)


def attend_case(target: Target, widths: Widths, form: str, *, biased: bool) -> Case:
    """Queries one by one against equation 1, and in groups against the same bits."""
    case = Case(f"attend {widths.d_k} {widths.d_v} {form}{' with biases' * biased}")
    tensors, lists = attention_case(widths.d_k, widths.d_v)
    slopes, positions = biases_case(len(lists)) if biased else (None, None)
    rows = stored(case, target, widths, form, torch.cat(tensors[1:], dim=1))
    heads = case.structure("heads", **heads_fields(case, widths, form, slopes))
    queries = case.tensor(tensors[0]), tensors[0].size(1)
    found = [case.room(len(lists) * NUM_HEADS * widths.d_v) for _ in (1, *GROUPS)]
    for out, group in zip(found, (1, *GROUPS), strict=True):
        attended = case.structure("attended", **attended_fields(case, lists, group, positions))
        case.call("attend", heads, len(lists), *queries, rows, attended, out, 1)
    case.expect(found[0], *attention(tensors, lists, form, slopes, positions))
    for grouped in found[1:]:
        case.expect_same_bits(found[0], grouped)
    return case


def stored(case: Case, target: Target, widths: Widths, form: str, keys_values: Tensor) -> Address:
    """Rows of keys and values that the case stores."""
    rows = room_for_rows(case, target, widths, form, len(keys_values))
    heads = case.structure("heads", **heads_fields(case, widths, form))
    tokens = case.tensor(keys_values), keys_values.size(1)
    case.call("store_keys_values", heads, len(keys_values), *tokens, rows)
    return rows


def room_for_rows(case: Case, target: Target, widths: Widths, form: str, num_rows: int) -> Address:
    return case.room(num_rows * places_of(widths, form, target).row, torch.uint8)


def heads_fields(case: Case, widths: Widths, form: str, slopes: Tensor | None = None) -> dict[str, Any]:
    fields = {**widths._asdict(), "form": FORMS.index(form)}
    return fields if slopes is None else {**fields, "slopes": case.tensor(slopes)}


def attended_fields(
    case: Case, lists: list[list[int]], group: int = 1, positions: Tensor | None = None
) -> dict[str, Any]:
    rows, starts, counts = map(case.tensor, lists_of_rows(lists))
    fields = {"rows": rows, "starts": starts, "counts": counts, "group": group}
    return fields if positions is None else {**fields, "positions": case.tensor(positions)}
