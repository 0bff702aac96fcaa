"""Cases of `residual.c`."""

import numpy as np
import torch
from tests.native.cases import Address, Case
from tests.native.references import NORM, SUMS, WIDTHS, random
from torch import Tensor, nn
from torch.nn import functional

from allyouneed.native.gradient_kernels import form_of

_NUM_ROWS = 150
"""More than two chunks of rows."""
_KEY, _BOUND, _SCALE = -5_000_000_000_000_000_123, -1_500_000_000, 1.25


def residual_cases() -> list[Case]:
    forms = "float32", "bfloat16"
    return [
        *(residual_case(width, form, drops) for width in WIDTHS for form in forms for drops in (True, False)),
        *(drop_case(form) for form in forms),
    ]


def drop_case(form: str) -> Case:
    """Dropout alone, of one thread and of two: the same bits."""
    case, dtype = Case(f"dropout {form}"), getattr(torch, form)
    values = random(1, 40_003, seed=4)[0].to(dtype)  # three blocks, the last of them short
    dropout = case.structure("dropout", key=_KEY, bound=_BOUND, scale=_SCALE)
    outs = [case.room(values.numel(), dtype) for _ in range(2)]
    for threads, out in enumerate(outs, 1):
        case.call("drop", values.numel(), form_of(dtype), case.tensor(values), dropout, out, threads)
    case.expect_same_bits(*outs)
    expected = (values * ((draws_of(_KEY, values.numel()) >= _BOUND) * _SCALE)).to(dtype)
    case.expect(outs[0], expected, torch.zeros(values.numel()), dtype)
    return case


def residual_case(width: int, form: str, drops: bool) -> Case:
    """LayerNorm(x + Dropout(y)) and its gradients, of one thread and of two: the same bits."""
    case, dtype = Case(f"add_norm in training {width} {form}{' with dropout' * drops}"), getattr(torch, form)
    x, y, gradient = (random(_NUM_ROWS, width, seed=seed) for seed in (1, 2, 3))
    y, norm = y.to(dtype), nn.LayerNorm(width, eps=1e-6)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.uniform_(norm.bias, -1, 1)
    bound, scale = (_BOUND, _SCALE) if drops else (-(2**31), 1.0)
    share = (draws_of(_KEY, x.numel()) >= bound).view_as(x) * scale
    dropout = case.structure("dropout", key=_KEY, bound=bound, scale=scale)
    found = [run(case, x, y, gradient, norm, dropout, threads) for threads in (1, 2)]
    for one, two in zip(*found, strict=True):
        case.expect_same_bits(one, two)
    out, normed, factors, of_x, of_y, of_gains, of_biases = found[0]
    inputs = [each.detach().double().requires_grad_() for each in (x, y, norm.weight, norm.bias)]
    total = inputs[0] + inputs[1] * share.double()
    expected = functional.layer_norm(total, (width,), inputs[2], inputs[3], norm.eps)
    gradients = torch.autograd.grad(expected, inputs, gradient.double())
    case.expect_close(out, expected.detach(), **NORM)
    case.expect_close(normed, functional.layer_norm(total.detach(), (width,), eps=norm.eps), **NORM)
    variance = total.detach().var(-1, correction=0)
    case.expect_close(factors, (variance + norm.eps).rsqrt(), **NORM)
    case.expect_close(of_x, gradients[0], **SUMS)
    precision = torch.finfo(dtype).eps / 2 if dtype == torch.bfloat16 else 0
    close = SUMS["atol"] + (SUMS["rtol"] + precision) * gradients[1].abs()
    case.expect(of_y, gradients[1], 1.3 * close, dtype)
    case.expect_close(of_gains, gradients[2], **SUMS)
    case.expect_close(of_biases, gradients[3], **SUMS)
    return case


def draws_of(key: int, count: int) -> Tensor:
    """What the kernel draws for the first places."""
    low, high = key & (2**32 - 1), key >> 32 & (2**32 - 1)
    bits = np.arange(count, dtype=np.uint32) + np.uint32(low)
    bits ^= bits >> 16
    bits = bits * np.uint32(0x7FEB352D) ^ np.uint32(high)
    bits ^= bits >> 15
    bits *= np.uint32(0x846CA68B)
    return torch.from_numpy((bits ^ bits >> 16).view(np.int32))


def run(
    case: Case, x: Tensor, y: Tensor, gradient: Tensor, norm: nn.LayerNorm, dropout: Address, threads: int
) -> list[Address]:
    """Call both functions; returns all that they write."""
    num_rows, width = x.shape
    gains, biases = map(case.tensor, (norm.weight, norm.bias))
    fields = case.structure("norm", gains=gains, biases=biases, epsilon=norm.eps)
    form = form_of(y.dtype)
    out, normed, of_x = (case.room(x.numel()) for _ in range(3))
    factors, of_y = case.room(num_rows), case.room(x.numel(), y.dtype)
    of_gains, of_biases = case.room(width), case.room(width)
    given = case.tensor(x), form, case.tensor(y)
    case.call("add_norm_forward", num_rows, width, *given, dropout, fields, normed, factors, out, threads)
    kept_rows = case.tensor(gradient), normed, factors, form
    case.call(
        *("add_norm_backward", num_rows, width, *kept_rows, dropout, gains),
        *(of_x, of_y, of_gains, of_biases, threads),
    )
    return [out, normed, factors, of_x, of_y, of_gains, of_biases]
