"""Training on an accelerator: its speed with the paper's batch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from allyouneed.config.model import ModelConfig
from allyouneed.hardware.machine import matmul_peak
from allyouneed.hardware.memory import forget_peak_memory, memory_bytes
from allyouneed.lab.bench.contenders import OURS, Entry
from allyouneed.lab.bench.training_speed import build_contender, take_turn
from allyouneed.lab.bench.training_workloads import SHAPES, Shape, make_batches

TRAINED = replace(SHAPES["base"], batch_tokens=25_000, micro_batch_tokens=25_000, steps=8)
"""The paper's batch: 25,000 tokens on either side (5.1)."""
_TINY = ModelConfig(
    source_vocab_size=100, target_vocab_size=100, d_model=16, d_ff=32, num_layers=1, num_heads=2
)
PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = "float32", "bfloat16"
ROUNDS = 3


def measure(device: torch.device, out: Path, tiny: bool) -> Iterator[tuple[str, Any]]:
    """Yield results with their names as they come."""
    shape = (
        replace(TRAINED, model=_TINY, batch_tokens=200, micro_batch_tokens=200, steps=1) if tiny else TRAINED
    )
    for precision in PRECISIONS:
        yield f"training: {precision}", _speed(device, shape, precision)


def _speed(device: torch.device, shape: Shape, precision: Literal["float32", "bfloat16"]) -> dict[str, Any]:
    """The best of several turns of training steps."""
    forget_peak_memory(device)
    (lengths,) = (draw() for draw in shape.workloads.values())
    drawn = make_batches(lengths, shape.batch_tokens, shape.model.target_vocab_size)
    batches = [next(drawn) for _ in range(shape.steps)]
    contender = build_contender(shape, Entry(OURS, precision), 1 + int(lengths.max()), device)
    turns = [take_turn(contender, batches, shape.model, device) for _ in range(1 + ROUNDS)][1:]
    best, memory = max(turns, key=lambda turn: turn.target_tokens_per_second), memory_bytes(device)
    peak = matmul_peak(device, precision, 512 if device.type == "cpu" else None)
    return {
        "target_tokens_per_second": best.target_tokens_per_second,
        "teraflops_per_second": best.flops_per_second / 1e12,
        "share_of_peak": best.flops_per_second / peak,
        "memory_bytes": memory,
    }
