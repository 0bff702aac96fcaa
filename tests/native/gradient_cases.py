"""Cases of `gradients.c`: the bits of PyTorch's own sums and products, for any number of threads."""

import torch
from tests.native.cases import Case
from tests.native.references import WIDTHS, random

from allyouneed.native.gradient_kernels import TYPES, form_of

_NUM_ROWS = 70
_SIZES = 1, 33, 40_001
"""The last one fills two blocks and a part of one."""
_SCALE = 0.7


def gradient_cases() -> list[Case]:
    return [
        *map(accumulate_case, _SIZES),
        *(difference_case(dtype, width) for dtype in TYPES for width in WIDTHS),
    ]


def accumulate_case(size: int) -> Case:
    case = Case(f"accumulate {size}")
    sums, values = random(size, seed=1), random(size, seed=2).bfloat16()
    given, expected = case.tensor(values), case.tensor(sums + values.float())
    for threads in (1, 2):
        found = case.tensor(sums)
        case.call("accumulate", size, given, found, threads)
        case.expect_same_bits(found, expected)
    return case


def difference_case(dtype: torch.dtype, width: int) -> Case:
    case = Case(f"scaled_difference {dtype} {width}")
    values, row = random(_NUM_ROWS, width, seed=1).to(dtype), random(width, seed=2)
    expected = case.tensor((values.float() - row) * torch.tensor(_SCALE))
    for threads in (1, 2):
        given, found = case.tensor(values), case.room(values.numel())
        form, by_row = form_of(dtype), case.tensor(row)
        case.call("scaled_difference", _NUM_ROWS, width, form, given, by_row, _SCALE, found, threads)
        case.expect_same_bits(found, expected)
        if dtype == torch.float32:  # in place
            case.call("scaled_difference", _NUM_ROWS, width, form, given, by_row, _SCALE, given, threads)
            case.expect_same_bits(given, expected)
    return case
