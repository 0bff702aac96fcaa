"""What it costs that an answer does not depend on its batch.

The linear maps of a decoder's step in float32, by our kernels, which sum in the same order for any number of
rows, and by PyTorch, which does not. Both compute a step of the small and of the base shape, by one thread,
and take turns; the median of the ratios is reported.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from allyouneed.config.model import ModelConfig
from allyouneed.hardware.machine import environment
from allyouneed.model.transformer import Transformer
from allyouneed.native.linear import PackedLinear

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
RESULTS = Path(__file__).parent / "results" / "invariance.json"
SHAPES = {
    "small": ModelConfig(
        source_vocab_size=8_000, target_vocab_size=8_000, num_layers=3, d_model=256, d_ff=1_024, num_heads=4
    ),
    "base": ModelConfig(),
}
Map = Callable[[Any], Any]


def linear_maps(model: Transformer) -> list[nn.Linear]:
    """Those of a step: of the decoder's layers, but for the source's keys and values, and of the output."""
    maps = [
        module
        for name, module in model.decoder.named_modules()
        if isinstance(module, nn.Linear) and not name.endswith("cross_attention.key_value")
    ]
    matrix = model.embeddings.matrix("output")
    output = nn.Linear(matrix.size(1), matrix.size(0), bias=False)
    output.weight = nn.Parameter(matrix.detach())
    return [*maps, output]


def seconds(maps: Sequence[Map], inputs: Sequence[Any]) -> float:
    """Of one step."""
    began = time.perf_counter()
    for compute, x in zip(maps, inputs, strict=True):
        compute(x)
    return time.perf_counter() - began


@torch.no_grad()
def main() -> None:
    """Measure, print a table, and keep it in `results/`."""
    torch.set_num_threads(1)
    rows = []
    for shape, sizes in SHAPES.items():
        theirs = linear_maps(Transformer(sizes).eval())
        ours = [PackedLinear(each.weight.numpy(), each.bias.numpy(), "float32") for each in theirs]
        for num_rows in (4, 32, 256):
            inputs = [torch.randn(num_rows, each.in_features) for each in theirs]
            arrays = [each.numpy() for each in inputs]
            ratios = [seconds(ours, arrays) / seconds(theirs, inputs) for _ in range(ROUNDS + 1)]
            rows.append(
                {"shape": shape, "rows": num_rows, "times_the_seconds": statistics.median(ratios[1:])}
            )
            print(f"{shape:<8}{num_rows:>4} rows{rows[-1]['times_the_seconds']:>8.2f} x PyTorch's seconds")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")) | {"threads": 1},
        "rounds": ROUNDS,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
