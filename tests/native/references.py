"""What the kernels compute, in float64, and how far rounding to float32 may lead away from it."""

import math
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.model.feed_forward import ACTIVATIONS
from allyouneed.symbols import END

ROUNDING = 2.0**-24
NEAR_A_TIE = 5e-7
"""How far float32 may lead a query, key or value away, as a share of the largest in its head."""
WEIGHT_NEAR_A_TIE = 2e-6
"""The same of a weight of attention: twice the error of a score of 8, whose last place is 2^-20."""
MOST_OF_WEIGHTS = 32_767
SHAPES = [(32, 64), (96, 256), (33, 67), (31, 1), (1, 5), (65, 514), (100, 127), (16, 2047)]
"""(outputs, inputs): whole panels and words of values, and what remains beside them."""
WIDTHS = [1, 15, 16, 17, 64, 250]
HEAD_WIDTHS = [(64, 64), (32, 48), (5, 3), (1, 17)]
"""(d_k, d_v)"""
VOCABULARIES = [9, 16, 33, 8_003]
NUM_HEADS = 3


class Tolerance(TypedDict):
    """Arguments of `torch.testing.assert_close`."""

    atol: float
    rtol: float


ATTENTION = Tolerance(atol=2e-6, rtol=1e-5)
NORM = Tolerance(atol=1e-5, rtol=1e-5)
SUMS = Tolerance(atol=3e-5, rtol=1e-5)
LOG_PROBS = Tolerance(atol=2e-6, rtol=1e-6)
STACK = Tolerance(atol=2e-5, rtol=2e-5)
ACTIVATION = Tolerance(atol=4e-7, rtol=1e-6)  # 5 * 1.5e-7 / 2, as erf is known to 1.5e-7
EXACT = Tolerance(atol=0.0, rtol=0.0)


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def largest_values() -> tuple[Tensor, Tensor]:
    """x and W: all signs of two inputs beside all signs of two weights, which are as large as they get."""
    signs = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    sizes = torch.tensor([[127.0, 127], [127, 0], [64, 63], [100, 28]])
    weight = torch.cat([signs * of_pair for of_pair in sizes])
    return (127 * signs).repeat(1, 32), weight.repeat(1, 32)


def rounded_to_steps(rows: Tensor, most: int = 127) -> tuple[Tensor, Tensor]:
    """Each row as integers from -most to most, and its step size; tiny rows are zeros."""
    largest = rows.abs().amax(dim=-1, keepdim=True)
    return (rows * torch.where(largest < 1e-30, 0, most / largest)).round(), largest / most


def rounded(rows: Tensor, form: str) -> Tensor:
    """Queries, keys or values in a form, as float64; each row of the last dimension is a head."""
    if form == "int8":
        steps, size = rounded_to_steps(rows)
        return steps.double() * size.double()
    return rows.to(getattr(torch, form)).double()


def mixed(weights: Tensor, values: Tensor, form: str, shift: float = 0) -> tuple[Tensor, Tensor]:
    """Weighted sums (..., queries, d_v) of values (..., rows, d_v), and how far ties may lead away from them.

    In int8, weights times the step sizes of values are rounded to 16 bits. Where one is so near to a tie that
    float32 may round it differently, the sum may differ by a step. `shift` is added to all, as a share of the
    largest.
    """
    if form != "int8":
        sums = weights @ rounded(values, form)
        return sums, torch.zeros_like(sums)
    values, value_sizes = (each.double() for each in rounded_to_steps(values))
    scaled = weights * value_sizes.transpose(-1, -2)
    scaled = scaled + shift * scaled.amax(dim=-1, keepdim=True)
    steps, size = rounded_to_steps(scaled, MOST_OF_WEIGHTS)
    near_a_tie = (
        (scaled / size.clamp_min(1e-30) - steps).abs() > 0.5 - WEIGHT_NEAR_A_TIE * MOST_OF_WEIGHTS
    ).double()
    return size * (steps @ values), size * (near_a_tie @ values.abs())


def int8_oracle(x: Tensor, weight: Tensor, bias: Tensor, pairs: bool) -> Tensor:
    """Exact sums of integers; one rounding to float32 each for the sum, the scale and the result.

    With `pairs`, 127 steps are as large as the largest weight and the largest sum of two neighbours.
    """
    x_scale = x.abs().amax(dim=1, keepdim=True) / 127
    largest = weight.abs().amax(dim=1)
    if pairs and weight.size(1) > 1:
        even, odd = weight[:, : weight.size(1) // 2 * 2 : 2], weight[:, 1::2]
        largest = largest.maximum((even + odd).abs().amax(dim=1))
    weight_scale = largest / 127
    weight_steps = (weight / weight_scale.clamp_min(1e-30)[:, None]).round()
    sums = rounded_to_steps(x)[0].long() @ weight_steps.long().T
    return (sums.float().double() * (x_scale * weight_scale).double() + bias.double()).float()


def product(x: Tensor, weight: Tensor, bias: Tensor, form: str, pairs: bool) -> tuple[Tensor, Tensor]:
    """x W^T + b, and a bound on the rounding of its sums; the sums of int8 are exact."""
    if form == "int8":
        y = int8_oracle(x, weight, bias, pairs).double()
        return y, torch.zeros_like(y)
    dtype = getattr(torch, form)
    x, weight, bias = x.to(dtype).double(), weight.to(dtype).double(), bias.double()
    bound = (weight.size(1) + 1) * ROUNDING * (x.abs() @ weight.abs().T + bias.abs())
    return x @ weight.T + bias, bound


def attention_case(d_k: int, d_v: int) -> tuple[list[Tensor], list[list[int]]]:
    """Queries, keys and values, and the rows that each query attends to: in any order, some the same."""
    torch.manual_seed(d_k)
    lists = [[3], [0, 1, 2], [7, 2, 9, 4], list(range(40)), [39] * 17]
    lists += [*[list(range(38, 3, -1))] * 9, [5, 6], *[[8]] * 5, [0, 1, 2], list(range(38, 3, -1))]
    shapes = (len(lists), NUM_HEADS * d_k), (40, NUM_HEADS * d_k), (40, NUM_HEADS * d_v)
    return [torch.randn(shape) for shape in shapes], lists


def lists_of_rows(lists: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """All rows, and where those of each query start and how many they are; equal lists start alike."""
    counts = torch.tensor([len(rows) for rows in lists], dtype=torch.int32)
    starts = functional.pad(counts.cumsum(0), (1, 0))[[lists.index(rows) for rows in lists]]
    return torch.tensor([row for rows in lists for row in rows], dtype=torch.int32), starts, counts


def attention(
    tensors: list[Tensor],
    lists: list[list[int]],
    form: str,
    slopes: Tensor | None = None,
    positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Equation 1 for each query over its rows, of which row j has position j, with linear biases; a bound.

    Queries, keys and values are rounded, and in int8 weights; nothing else is.
    """
    queries, keys, values = (tensor.unflatten(1, (NUM_HEADS, -1)) for tensor in tensors)
    queries, keys = rounded(queries, form), rounded(keys, form)
    mixtures, bounds = [], []
    for i, (query, rows) in enumerate(zip(queries, lists, strict=True)):
        scores = torch.einsum("hd,rhd->hr", query, keys[rows]) / math.sqrt(keys.size(2))
        if slopes is not None and positions is not None:
            scores -= slopes.double()[:, None] * (positions[i] - torch.arange(len(rows))).abs()
        mixture, bound = mixed(scores.softmax(-1)[:, None], values[rows].transpose(0, 1), form)
        mixtures.append(mixture.flatten())
        bounds.append(bound.flatten())
    expected = torch.stack(mixtures)
    return expected, torch.stack(bounds) + ATTENTION["atol"] + ATTENTION["rtol"] * expected.abs()


def biases_case(num_queries: int) -> tuple[Tensor, Tensor]:
    """A slope for each head, and positions of the queries: before, among and after those of their rows."""
    return torch.tensor([0.5, 0.0, 0.03125]), (4 + 33 * torch.arange(num_queries)) % 43


def keys_values_case(num_heads: int, d_k: int, d_v: int) -> Tensor:
    """Rows of keys and values, with all kinds of numbers, among them ties in bfloat16 and int8."""
    keys_values = random(23, num_heads * (d_k + d_v))
    ulp = 2.0**-7  # distance of 1 to its neighbour in bfloat16
    ties = [1 + ulp / 2, 1 + 3 * ulp / 2, -1 - ulp / 2, -1 - 3 * ulp / 2]
    beside = [1 + ulp / 2 + 2.0**-23, 1 + 3 * ulp / 2 - 2.0**-23]
    largest, smallest = torch.finfo(torch.float32).max, 2.0**-149
    extremes = [largest, -largest, smallest, -smallest, math.inf, -math.inf, math.nan, -math.nan, 0.0]
    special = torch.tensor([*ties, *beside, *extremes])
    keys_values.flatten()[: 3 * len(special)] = special.repeat(3)[: keys_values.numel()]
    keys_values[-3] = 127 * keys_values[-3].sign()
    keys_values[-3, 1::3], keys_values[-3, 2::3] = 0.5, -1.5  # steps are 1, in heads of more than two values
    keys_values[-2], keys_values[-2, ::3] = 2.5 * keys_values[-2].sign(), -127
    keys_values[-1, 0] = torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)  # NaN in a low bit
    return keys_values


def activation_case() -> Tensor:
    return torch.cat([torch.linspace(-20, 20, 1_001), torch.tensor([0.0, 1e-30, -1e-30, 90, -90, 1e4, -1e4])])


def activated(name: str, x: Tensor) -> Tensor:
    """The activation in float64."""
    return ACTIVATIONS[name](x.double())


def norm_case(width: int) -> tuple[Tensor, Tensor, nn.LayerNorm]:
    """x and y, and a normalisation with gains and biases."""
    torch.manual_seed(width)
    x, y = torch.randn(7, width), 3 * torch.randn(7, width) + 2
    norm = nn.LayerNorm(width, eps=1e-6)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.uniform_(norm.bias, -1, 1)
    return x, y, norm


@torch.no_grad()
def normed_sum(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    parameters = norm.weight.double(), norm.bias.double()
    return functional.layer_norm(x.double() + y.double(), norm.normalized_shape, *parameters, norm.eps)


def logits_case(width: int) -> Tensor:
    torch.manual_seed(width)
    logits = 4 * torch.randn(30, width)
    logits[10:20] = logits[10:20].round()  # with ties
    return logits


def most_probable(
    logits: Tensor, k: int, excluded: tuple[int, ...], cannot_end: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens, by a stable sort."""
    log_probs = logits.double().log_softmax(-1)
    log_probs[:, list(excluded)] = -math.inf
    if cannot_end is not None:
        log_probs[cannot_end, END] = -math.inf
    expected, places = log_probs.sort(dim=-1, descending=True, stable=True)
    return expected[:, :k], places[:, :k]
