"""The kernels against PyTorch in double precision, and their bits against those of other calls."""

import ctypes
import math

import pytest
import torch
from tests.native.references import (
    ACTIVATION,
    HEAD_WIDTHS,
    LOG_PROBS,
    NORM,
    NUM_HEADS,
    VOCABULARIES,
    WIDTHS,
    activated,
    activation_case,
    attention,
    attention_case,
    biases_case,
    keys_values_case,
    lists_of_rows,
    logits_case,
    most_probable,
    norm_case,
    normed_sum,
)
from tests.native.with_tensors import Heads, stored_rows, top_log_probs
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.native.attention_kernels import KeysValues, Rows
from allyouneed.native.library import FORMS, library
from allyouneed.native.stack import ACTIVATIONS, Norm
from allyouneed.symbols import END


def attend(queries: Tensor, stored: Tensor, rows: Rows, heads: Heads, threads: int = 1) -> Tensor:
    d_v = heads.structure.d_v
    out = torch.empty(len(queries), heads.structure.num_heads * d_v)
    assert library().attend(
        ctypes.addressof(heads.structure),
        len(queries),
        queries.data_ptr(),
        queries.stride(0),
        stored.data_ptr(),
        ctypes.addressof(rows.structure),
        out.data_ptr(),
        threads,
    )
    return out


def add_norm(x: Tensor, y: Tensor | None, norm: nn.LayerNorm, threads: int = 1) -> Tensor:
    out = torch.empty_like(x)
    structure = Norm(norm.weight.detach().numpy(), norm.bias.detach().numpy(), norm.eps).structure()
    terms = x.data_ptr(), None if y is None else y.data_ptr()
    library().add_norm(*x.shape, *terms, ctypes.addressof(structure), out.data_ptr(), threads)
    return out


def stored(heads: Heads, *parts: Tensor) -> Tensor:
    """Rows of keys and values."""
    return stored_rows(heads, torch.cat(parts, dim=1))


def rows_of(lists: list[list[int]], group: int = 1, positions: Tensor | None = None) -> Rows:
    rows, starts, counts = (tensor.numpy() for tensor in lists_of_rows(lists))
    return Rows(rows, starts, counts, group, None if positions is None else positions.numpy())


def attended(
    tensors: list[Tensor],
    lists: list[list[int]],
    form: str,
    threads: int = 1,
    group: int = 1,
    biases: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    slopes, positions = biases or (None, None)
    d_k, d_v = (tensor.size(1) // NUM_HEADS for tensor in tensors[1:])
    heads = Heads(NUM_HEADS, d_k, d_v, form, slopes)
    return attend(tensors[0], stored(heads, *tensors[1:]), rows_of(lists, group, positions), heads, threads)


@pytest.mark.parametrize("form", FORMS)
def test_tables_grow_and_are_tidied_without_a_change_of_rows(form: str) -> None:
    widths = 8, 64, 64  # without gaps in rows
    heads = Heads(*widths, form)
    keys_values, table = keys_values_case(*widths), KeysValues(heads, num_layers=2)
    for row in range(len(keys_values)):
        first = table.reserve(1)
        assert first == row
        for layer in range(2):
            table.store(layer, (keys_values[row : row + 1] + layer).numpy(), first)
    table.keep(torch.tensor([7, 3, 22]).numpy())
    assert table.num_rows == 3
    addresses = (ctypes.c_void_p * 2).from_address(table.addresses)
    for layer, address in enumerate(addresses):
        expected = stored(heads, keys_values[[7, 3, 22]] + layer)
        words = (ctypes.c_float * expected.numel()).from_address(address)
        assert bytes(words) == expected.numpy().tobytes()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("d_k", "d_v"), HEAD_WIDTHS)
def test_attention_is_equation_1_over_the_rows_of_each_query(
    d_k: int, d_v: int, form: str, biased: bool
) -> None:
    tensors, lists = attention_case(d_k, d_v)
    biases = biases_case(len(lists)) if biased else None
    found = attended(tensors, lists, form, biases=biases)
    expected, bound = attention(tensors, lists, form, *(biases or ()))
    assert ((found - expected).abs() <= bound).all()


@pytest.mark.parametrize("form", FORMS)
def test_attention_takes_queries_that_lie_apart(form: str) -> None:
    tensors, lists = attention_case(16, 16)
    apart = [functional.pad(tensors[0], (3, 5))[:, 3:-5], *tensors[1:]]
    assert torch.equal(attended(apart, lists, form), attended(tensors, lists, form))


@pytest.mark.parametrize("form", FORMS)
def test_the_bits_of_a_query_depend_on_its_own_rows_only(form: str) -> None:
    tensors, lists = attention_case(32, 32)
    biases = biases_case(len(lists))
    whole = attended(tensors, lists, form, biases=biases)
    assert torch.equal(attended(tensors, lists, form, threads=2, biases=biases), whole)
    for group in (2, 3, 4, 8):
        assert torch.equal(attended(tensors, lists, form, threads=2, group=group, biases=biases), whole)
    for i, rows in enumerate(lists):
        own = biases[0], biases[1][i : i + 1]
        alone = attended([tensors[0][i : i + 1], *tensors[1:]], [rows], form, biases=own)
        assert torch.equal(alone[0], whole[i])


@pytest.mark.parametrize("form", FORMS)
def test_large_and_infinite_scores_give_weights(form: str) -> None:
    heads = Heads(1, 1, 1, form)
    values = torch.tensor([[1.0], [5.0], [7.0]])  # 32,767 is a multiple of 7
    rows = stored(heads, torch.tensor([[1e4], [-1e4], [1e4]]), values)
    assert attend(torch.tensor([[1.0]]), rows, rows_of([[0, 1, 2]]), heads).item() == pytest.approx(
        4.0, rel=1e-6
    )


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("form", FORMS)
def test_no_finite_number_comes_of_values_that_are_none(form: str, number: float) -> None:
    tensors, lists = attention_case(16, 16)
    tensors[2][3] = number  # row 3 of the values
    found = attended(tensors, lists, form, group=4)
    for i, rows in enumerate(lists):
        assert bool(found[i].isfinite().any()) == (3 not in rows)


@pytest.mark.parametrize("width", WIDTHS)
def test_add_norm_is_the_layer_norm_of_the_sum(width: int) -> None:
    x, y, norm = norm_case(width)
    found = add_norm(x, y, norm)
    torch.testing.assert_close(found.double(), normed_sum(x, y, norm), **NORM)
    assert torch.equal(add_norm(x, y, norm, threads=2), found)
    assert torch.equal(add_norm(x[2:3].clone(), y[2:3].clone(), norm)[0], found[2])
    assert torch.equal(add_norm(x, None, norm), add_norm(x, torch.zeros_like(x), norm))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_those_of_pytorch(name: str) -> None:
    x = activation_case()
    for num_values in (1, 3, len(x)):
        values = x[-num_values:].clone()
        library().activate(ACTIVATIONS.index(name), num_values, values.data_ptr(), 1)
        torch.testing.assert_close(values.double(), activated(name, x[-num_values:]), **ACTIVATION)


def test_an_activation_of_what_is_no_number_is_none() -> None:
    for name in ACTIVATIONS:
        values = torch.tensor([math.nan, 2.0, math.inf])
        library().activate(ACTIVATIONS.index(name), 3, values.data_ptr(), 1)
        assert values[0].isnan()
        torch.testing.assert_close(values[1:].double(), activated(name, torch.tensor([2.0, math.inf])))


@pytest.mark.parametrize("width", VOCABULARIES)
def test_the_most_probable_tokens_are_those_of_a_stable_sort(width: int) -> None:
    logits, excluded = logits_case(width), (0, 3)
    expected, places = most_probable(logits, 6, excluded)
    given = logits.clone()
    values, ids = top_log_probs(given, 6, excluded)
    assert torch.equal(given, logits)
    assert torch.equal(ids, places)
    torch.testing.assert_close(values.double(), expected, **LOG_PROBS)


def test_only_rows_that_may_end_do() -> None:
    logits = logits_case(33)
    logits[:, END] = 9.0
    cannot_end = torch.arange(30).view(10, 3) % 4 == 0
    values, ids = top_log_probs(logits.view(10, 3, 33), 6, (0,), cannot_end=cannot_end.numpy())
    expected, places = most_probable(logits, 6, (0,), cannot_end.flatten())
    assert torch.equal(ids.view(30, 6), places)
    assert torch.equal((ids == END).any(dim=2), ~cannot_end)
    torch.testing.assert_close(values.view(30, 6).double(), expected, **LOG_PROBS)


def test_all_tokens_can_be_asked_for_and_impossible_ones_come_last() -> None:
    logits = torch.tensor([[2.0, -math.inf, 5.0, 5.0, 1.0]])
    values, ids = top_log_probs(logits, 5, (4,))
    assert ids[0, :3].tolist() == [2, 3, 0]
    assert values[0, 3:].tolist() == [-math.inf, -math.inf]
