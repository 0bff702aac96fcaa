"""How many times as fast restricted self-attention is as full self-attention, and what memory either takes.

Forward and backward pass of the core (equation 1, without projections) of 8 heads of 64 in float32, at 4,096
positions with a neighbourhood of 128, beside three kernels of full attention, the fastest of which counts.
All take turns, so that a busy machine slows them all; medians are reported. What is found, result and
gradients, is compared with that of masked full attention.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from allyouneed.config.model import Reach
from allyouneed.hardware.machine import environment
from allyouneed.lab.paper.layer_measurements import exponent, peak_bytes
from allyouneed.model.attention import SoftmaxAttention
from allyouneed.model.comparison.layer_kinds import RestrictedSelfAttention
from allyouneed.model.neighbourhood import NeighbourhoodMask

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
RESULTS = Path(__file__).parent / "results" / "restricted_attention.json"
HEADS, HEAD_WIDTH, NEIGHBOURHOOD, LENGTH = 8, 64, 128, 4_096
LENGTHS = (1_024, 2_048, 4_096, 8_192)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's kernel, which keeps no matrix of weights."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(query, key, value)


def unfused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's operations, one after the other."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(query, key, value)


def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The form that trains on CPUs, with a mask that closes nothing."""
    everything = torch.ones(1, 1, 1, key.size(2), dtype=torch.bool)
    found: Tensor = SoftmaxAttention()(query, key, value, everything)
    return found


FULL: dict[str, Attend] = {"fused": fused, "unfused": unfused, "plain": plain}
RESTRICTED: Attend = RestrictedSelfAttention(HEADS * HEAD_WIDTH, NEIGHBOURHOOD).core


def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Full attention, of which all but the neighbourhood is masked."""
    real = torch.ones(1, query.size(2), dtype=torch.bool)
    return scaled_dot_product_attention(
        query, key, value, NeighbourhoodMask(real, Reach.around(NEIGHBOURHOOD)).dense()
    )


def inputs(length: int) -> list[Tensor]:
    """Queries, keys and values."""
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, length, HEAD_WIDTH, requires_grad=True) for _ in range(3)]


def both_passes(attend: Attend, given: Sequence[Tensor]) -> list[Tensor]:
    """The result, and the gradients of a sum of it with weights of its own shape."""
    found = attend(*given)
    torch.manual_seed(1)
    return [found.detach(), *torch.autograd.grad(found, given, torch.randn_like(found))]


def seconds(attend: Attend, given: Sequence[Tensor]) -> float:
    """Of both passes."""
    began = time.perf_counter()
    torch.autograd.grad(attend(*given).sum(), given)
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    given = inputs(LENGTH)
    contenders = {"restricted": RESTRICTED, **FULL}
    rounds = [{name: seconds(each, given) for name, each in contenders.items()} for _ in range(ROUNDS + 1)]
    medians = {name: statistics.median(of[name] for of in rounds[1:]) for name in contenders}
    fastest = min(FULL, key=medians.__getitem__)
    times = medians[fastest] / medians["restricted"]
    pairs = zip(both_passes(RESTRICTED, given), both_passes(masked, given), strict=True)
    difference = max(float((a - b).abs().max()) for a, b in pairs)
    memory = {
        name: [peak_bytes(partial(both_passes, each, inputs(n))) for n in LENGTHS]
        for name, each in {"restricted": RESTRICTED, "fused": fused}.items()
    }
    growth = exponent(LENGTHS, memory["restricted"])
    for name, median in medians.items():
        print(f"{name:<12}{median:>10.4f} s")
    print(f"{times:.1f} times as fast as full attention in its fastest kernel, {fastest}")
    print(f"greatest difference from masked full attention {difference:.1e}; memory as n^{growth:.2f}")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": ROUNDS,
        "sizes": {"heads": HEADS, "head_width": HEAD_WIDTH, "n": LENGTH, "r": NEIGHBOURHOOD},
        "seconds": medians,
        "times_as_fast": times,
        "fastest_full": fastest,
        "greatest_difference": difference,
        "memory": {"n": LENGTHS, "bytes": memory, "exponent_of_n": growth},
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
