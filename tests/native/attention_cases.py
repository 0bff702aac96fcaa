"""Cases of `attention.c`."""

from tests.native.cases import Address, Case
from tests.native.references import (
    ATTENTION,
    HEAD_WIDTHS,
    NUM_HEADS,
    attention,
    attention_case,
    lists_of_rows,
)


def attention_cases() -> list[Case]:
    return [attend_case(d_k, d_v) for d_k, d_v in HEAD_WIDTHS]


def attend_case(d_k: int, d_v: int) -> Case:
    """Queries one by one against equation 1, and in groups against the same bits."""
    case = Case(f"attend {d_k} {d_v}")
    tensors, lists = attention_case(d_k, d_v)
    tables = [part for tensor in tensors for part in (case.tensor(tensor), tensor.size(1))]
    alone, grouped = (case.room(len(lists) * NUM_HEADS * d_v) for _ in range(2))
    for out, group in ((alone, 1), (grouped, 3)):
        attended = attended_structure(case, lists, group)
        case.call("attend", len(lists), NUM_HEADS, d_k, d_v, *tables, attended, out, 1)
    case.expect_close(alone, attention(tensors, lists), **ATTENTION)
    case.expect_same_bits(alone, grouped)
    return case


def attended_structure(case: Case, lists: list[list[int]], group: int = 1) -> Address:
    rows, starts, counts = map(case.tensor, lists_of_rows(lists))
    return case.structure("attended", rows=rows, starts=starts, counts=counts, group=group)
