"""Where keys and values are in a row, as `stored_rows.h` stores them."""

from typing import NamedTuple

from tests.native.driver import Target

_NUM_STEPS = 2
_CACHE_LINE, _FLOAT = 64, 4


class Widths(NamedTuple):
    """Heads of attention."""

    num_heads: int
    d_k: int
    d_v: int


class Places(NamedTuple):
    """`struct places` of `stored_rows.h`: values in a head with its zeros; bytes from the start of a row."""

    key_space: int
    value_space: int
    steps: int
    values: int
    row: int


def places_of(widths: Widths, form: str, target: Target) -> Places:
    """The places in a row: keys, in int8 the step sizes of keys and values, and values."""
    key_space = _rounded_up(widths.d_k, target.lanes * target.key_values(form))
    value_space = _rounded_up(widths.d_v, target.lanes * (2 if form == "int8" else 1))
    num_bytes = {"float32": 4, "bfloat16": 2, "int8": 1}[form] * widths.num_heads
    steps = values = num_bytes * key_space
    if form == "int8":
        values = _rounded_up(steps + _NUM_STEPS * widths.num_heads * _FLOAT, _CACHE_LINE)
    row = _rounded_up(values + num_bytes * value_space, _CACHE_LINE)
    return Places(key_space, value_space, steps, values, row)


def _rounded_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
