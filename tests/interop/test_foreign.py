"""Arrays of other software become float32 as PyTorch would round them, in the order of our ids."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allyouneed.interop.foreign import NEVER, Order, Tensors, as_float32


def test_every_bfloat16_has_the_value_that_pytorch_gives_it() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert np.array_equal(as_float32(bits), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.int32])
def test_other_numbers_are_rounded_as_pytorch_rounds_them(dtype: Any) -> None:
    values = np.random.default_rng(1).normal(scale=100, size=1_000).astype(dtype)
    assert np.array_equal(as_float32(values), torch.from_numpy(values).float().numpy())
    assert np.isinf(as_float32(np.array([1e300]))).all()


def test_single_numbers_may_be_of_any_type() -> None:
    found = {
        "a/half": np.uint16(0x3FC0),
        "a/whole": np.int16(3),
        "a/exact": np.float32(0.1),
        "a/b/c": np.int8(1),
    }
    tensors = Tensors({name: np.array(value) for name, value in found.items()}, Path("file"))
    assert tensors.numbers("a/") == {"half": 1.5, "whole": 3, "exact": float(np.float32(0.1))}
    assert "a/b/c" in tensors


def test_rows_are_put_in_our_order_and_missing_ones_are_filled() -> None:
    order = Order([None, 2, None, 0, 1], ["x"])
    matrix = np.array([[1, 2], [3, 5], [7, 11]], np.float32)
    assert order.rows(matrix).tolist() == [[0, 0], [7, 11], [0, 0], [1, 2], [3, 5]]
    assert order.rows(matrix[:, 0], NEVER).tolist() == [NEVER, 7, NEVER, 1, 3]
