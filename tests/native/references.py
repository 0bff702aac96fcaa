"""What the kernels compute, in float64, and how far rounding to float32 may lead away from it."""

import math
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

ROUNDING = 2.0**-24
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
LOG_PROBS = Tolerance(atol=2e-6, rtol=1e-6)
LAYER = Tolerance(atol=1e-5, rtol=1e-5)
EXACT = Tolerance(atol=0.0, rtol=0.0)


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rounded_to_steps(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row as integers from -127 to 127, and what a step is worth."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    return (rows * torch.where(largest > 0, 127 / largest, 0)).round(), largest / 127


def int8_oracle(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Exact sums of integers; one rounding to float32 each for the sum, the scale and the result."""
    x_scale = x.abs().amax(dim=1, keepdim=True) / 127
    weight_scale = weight.abs().amax(dim=1) / 127
    weight_steps = (weight / weight_scale.clamp_min(1e-30)[:, None]).round()
    sums = rounded_to_steps(x)[0].long() @ weight_steps.long().T
    return (sums.float().double() * (x_scale * weight_scale).double() + bias.double()).float()


def product(x: Tensor, weight: Tensor, bias: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """x W^T + b, and a bound on the rounding of its sums; the sums of int8 are exact."""
    if form == "int8":
        y = int8_oracle(x, weight, bias).double()
        return y, torch.zeros_like(y)
    dtype = getattr(torch, form)
    x, weight, bias = x.to(dtype).double(), weight.to(dtype).double(), bias.double()
    bound = (weight.size(1) + 1) * ROUNDING * (x.abs() @ weight.abs().T + bias.abs())
    return x @ weight.T + bias, bound


def attention_case(d_k: int, d_v: int) -> tuple[list[Tensor], list[list[int]]]:
    """Queries, keys and values, and the rows that each query attends to, in any order."""
    torch.manual_seed(d_k)
    lists = [[3], [0, 1, 2], [7, 2, 9, 4], list(range(40)), [39] * 17]
    shapes = (len(lists), NUM_HEADS * d_k), (40, NUM_HEADS * d_k), (40, NUM_HEADS * d_v)
    return [torch.randn(shape) for shape in shapes], lists


def lists_of_rows(lists: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of all queries, and where those of each query start and how many they are."""
    counts = torch.tensor([len(rows) for rows in lists], dtype=torch.int32)
    starts = functional.pad(counts.cumsum(0), (1, 0))[:-1]
    return torch.tensor([row for rows in lists for row in rows], dtype=torch.int32), starts, counts


def attention(tensors: list[Tensor], lists: list[list[int]]) -> Tensor:
    """Equation 1 for each query over its rows."""
    queries, keys, values = (tensor.double().unflatten(1, (NUM_HEADS, -1)) for tensor in tensors)
    mixtures = []
    for query, rows in zip(queries, lists, strict=True):
        scores = torch.einsum("hd,rhd->hr", query, keys[rows]) / math.sqrt(keys.size(2))
        mixtures.append(torch.einsum("hr,rhd->hd", scores.softmax(-1), values[rows]).flatten())
    return torch.stack(mixtures)


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


def most_probable(logits: Tensor, k: int, excluded: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens, by a stable sort."""
    log_probs = logits.double().log_softmax(-1)
    log_probs[:, list(excluded)] = -math.inf
    expected, places = log_probs.sort(dim=-1, descending=True, stable=True)
    return expected[:, :k], places[:, :k]
