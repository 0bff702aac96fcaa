"""The kernels against PyTorch in double precision, and their bits against those of other calls."""

import math

import pytest
import torch
from tests.native.references import (
    ATTENTION,
    HEAD_WIDTHS,
    LOG_PROBS,
    NORM,
    NUM_HEADS,
    VOCABULARIES,
    WIDTHS,
    attention,
    attention_case,
    lists_of_rows,
    logits_case,
    most_probable,
    norm_case,
    normed_sum,
)
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.native.kernels import Rows, top_log_probs
from allyouneed.native.library import library


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, rows: Rows, num_heads: int, threads: int = 1
) -> Tensor:
    out = torch.empty(len(queries), values.size(1))
    widths = (tensor.size(1) // num_heads for tensor in (keys, values))
    tables = (part for tensor in (queries, keys, values) for part in (tensor.data_ptr(), tensor.stride(0)))
    assert library().attend(len(queries), num_heads, *widths, *tables, rows.address, out.data_ptr(), threads)
    return out


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm, threads: int = 1) -> Tensor:
    out = torch.empty_like(x)
    pointers = (tensor.data_ptr() for tensor in (x, y, norm.weight, norm.bias))
    library().add_norm(*x.shape, *pointers, norm.eps, out.data_ptr(), threads)
    return out


def attended(
    tensors: list[Tensor], lists: list[list[int]], heads: int = NUM_HEADS, threads: int = 1, group: int = 1
) -> Tensor:
    queries, keys, values = tensors
    return attend(queries, keys, values, Rows(*lists_of_rows(lists), group), heads, threads)


@pytest.mark.parametrize(("d_k", "d_v"), HEAD_WIDTHS)
def test_attention_is_equation_1_over_the_rows_of_each_query(d_k: int, d_v: int) -> None:
    tensors, lists = attention_case(d_k, d_v)
    found = attended(tensors, lists)
    torch.testing.assert_close(found.double(), attention(tensors, lists), **ATTENTION)


def test_attention_takes_rows_that_lie_apart() -> None:
    tensors, lists = attention_case(16, 16)
    apart = [functional.pad(tensor, (3, 5))[:, 3:-5] for tensor in tensors]
    assert torch.equal(attended(apart, lists), attended(tensors, lists))


def test_the_bits_of_a_query_depend_on_its_own_rows_only() -> None:
    tensors, lists = attention_case(32, 32)
    whole = attended(tensors, lists)
    assert torch.equal(attended(tensors, lists, threads=2), whole)
    for group in (2, 3, 8):
        assert torch.equal(attended(tensors, lists, group=group, threads=2), whole)
    for i, rows in enumerate(lists):
        assert torch.equal(attended([tensors[0][i : i + 1], *tensors[1:]], [rows])[0], whole[i])


def test_large_and_infinite_scores_give_weights() -> None:
    keys = torch.tensor([[1e4], [-1e4], [1e4]])
    found = attend(
        torch.tensor([[1.0]]),
        keys,
        torch.tensor([[1.0], [5.0], [3.0]]),
        Rows(torch.arange(3, dtype=torch.int32), torch.tensor([0]), torch.tensor([3], dtype=torch.int32)),
        num_heads=1,
    )
    assert found.tolist() == [[2.0]]


@pytest.mark.parametrize("width", WIDTHS)
def test_add_norm_is_the_layer_norm_of_the_sum(width: int) -> None:
    x, y, norm = norm_case(width)
    found = add_norm(x, y, norm)
    torch.testing.assert_close(found.double(), normed_sum(x, y, norm), **NORM)
    assert torch.equal(add_norm(x, y, norm, threads=2), found)
    assert torch.equal(add_norm(x[2:3].clone(), y[2:3].clone(), norm)[0], found[2])


@pytest.mark.parametrize("width", VOCABULARIES)
def test_the_most_probable_tokens_are_those_of_a_stable_sort(width: int) -> None:
    logits, excluded = logits_case(width), (0, 3)
    expected, places = most_probable(logits, 6, excluded)
    values, ids = top_log_probs(logits.clone(), 6, excluded)
    assert torch.equal(ids, places)
    torch.testing.assert_close(values.double(), expected, **LOG_PROBS)
    by_two = top_log_probs(logits.clone(), 6, excluded, threads=2)
    assert torch.equal(by_two[0], values)
    assert torch.equal(by_two[1], ids)


def test_all_tokens_can_be_asked_for_and_impossible_ones_come_last() -> None:
    logits = torch.tensor([[2.0, -math.inf, 5.0, 5.0, 1.0]])
    values, ids = top_log_probs(logits.clone(), 5, (4,))
    assert ids[0, :3].tolist() == [2, 3, 0]
    assert values[0, 3:].tolist() == [-math.inf, -math.inf]
