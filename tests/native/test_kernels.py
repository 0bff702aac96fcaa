"""The kernels against PyTorch in double precision, and their bits against those of other calls."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.native.kernels import Rows, top_log_probs
from allyouneed.native.library import library

WIDTHS = [1, 15, 16, 17, 64, 250]


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


def attention_case(d_k: int, d_v: int, heads: int = 3) -> tuple[list[Tensor], list[list[int]]]:
    """Queries, keys and values, and the rows that each query attends to, in any order."""
    torch.manual_seed(d_k)
    lists = [[3], [0, 1, 2], [7, 2, 9, 4], list(range(40)), [39] * 17]
    shapes = (len(lists), heads * d_k), (40, heads * d_k), (40, heads * d_v)
    return [torch.randn(shape) for shape in shapes], lists


def attended(
    tensors: list[Tensor], lists: list[list[int]], heads: int = 3, threads: int = 1, group: int = 1
) -> Tensor:
    counts = torch.tensor([len(rows) for rows in lists], dtype=torch.int32)
    starts = functional.pad(counts.cumsum(0), (1, 0))[:-1]
    rows = torch.tensor([row for rows in lists for row in rows], dtype=torch.int32)
    queries, keys, values = tensors
    return attend(queries, keys, values, Rows(rows, starts, counts, group), heads, threads)


@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (32, 48), (5, 3), (1, 17)])
def test_attention_is_equation_1_over_the_rows_of_each_query(d_k: int, d_v: int) -> None:
    (queries, keys, values), lists = attention_case(d_k, d_v)
    found = attended([queries, keys, values], lists)
    for query, rows, mixture in zip(queries, lists, found, strict=True):
        heads_of_query = query.view(3, 1, d_k).double()
        heads_of_keys = keys[rows].view(-1, 3, d_k).transpose(0, 1).double()
        weights = (heads_of_query @ heads_of_keys.mT / math.sqrt(d_k)).softmax(-1)
        expected = (weights @ values[rows].view(-1, 3, d_v).transpose(0, 1).double()).flatten()
        torch.testing.assert_close(mixture.double(), expected, atol=2e-6, rtol=1e-5)


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
    torch.manual_seed(width)
    x, y = torch.randn(7, width), 3 * torch.randn(7, width) + 2
    norm = nn.LayerNorm(width, eps=1e-6)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.uniform_(norm.bias, -1, 1)
    with torch.no_grad():
        expected = norm.double()(x.double() + y.double())
        found = add_norm(x, y, norm.float())
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(add_norm(x, y, norm, threads=2), found)
    assert torch.equal(add_norm(x[2:3].clone(), y[2:3].clone(), norm)[0], found[2])


@pytest.mark.parametrize("width", [9, 16, 33, 8_003])
def test_the_most_probable_tokens_are_those_of_a_stable_sort(width: int) -> None:
    torch.manual_seed(width)
    logits = 4 * torch.randn(30, width)
    logits[10:20] = logits[10:20].round()  # with ties
    excluded = (0, 3)
    log_probs = logits.double().log_softmax(-1)
    log_probs[:, list(excluded)] = -math.inf
    expected, places = log_probs.sort(dim=-1, descending=True, stable=True)
    values, ids = top_log_probs(logits.clone(), 6, excluded)
    assert torch.equal(ids, places[:, :6])
    torch.testing.assert_close(values.double(), expected[:, :6], atol=2e-6, rtol=1e-6)
    by_two = top_log_probs(logits.clone(), 6, excluded, threads=2)
    assert torch.equal(by_two[0], values)
    assert torch.equal(by_two[1], ids)


def test_all_tokens_can_be_asked_for_and_impossible_ones_come_last() -> None:
    logits = torch.tensor([[2.0, -math.inf, 5.0, 5.0, 1.0]])
    values, ids = top_log_probs(logits.clone(), 5, (4,))
    assert ids[0, :3].tolist() == [2, 3, 0]
    assert values[0, 3:].tolist() == [-math.inf, -math.inf]
