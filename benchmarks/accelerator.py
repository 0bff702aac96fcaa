"""An accelerator on one page: correct against the CPU, training speed, decoding speed.

`make bench-gpu` runs it. Models have the base shape and random weights, decoded outputs a fixed length.
"""

import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import SearchConfig
from allyouneed.hardware.machine import environment, matmul_peak, wait_for
from allyouneed.hardware.memory import memory_bytes
from allyouneed.inference.engine_choice import build_engine
from allyouneed.inference.generate import generate
from allyouneed.inference.search_plan import Batching
from allyouneed.inference.torch_engine import TorchEngine
from allyouneed.lab.bench.contenders import OURS, Entry, Precision
from allyouneed.lab.bench.training_speed import build_contender, take_turn
from allyouneed.lab.bench.training_workloads import SHAPES, Shape, make_batches
from allyouneed.model.architectures import build_model
from allyouneed.training.update import accumulate_gradient

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "accelerator.json"
TRAINED = replace(SHAPES["base"], batch_tokens=25_000, micro_batch_tokens=25_000, steps=8)
"""The paper's batch: 25,000 tokens on either side (5.1)."""
PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = "float32", "bfloat16"
ROUNDS = 3
NUM_SENTENCES, OUTPUT_TOKENS = 1_024, 32
SMALL = ModelConfig(
    source_vocab_size=500,
    target_vocab_size=500,
    d_model=128,
    d_ff=256,
    num_layers=2,
    num_heads=4,
    dropout=0.0,
)


def checks(device: torch.device) -> Iterator[tuple[str, bool]]:
    """Each check against the CPU, and whether it holds."""
    torch.manual_seed(1)
    model = build_model(SMALL)
    with torch.no_grad():
        for parameter in model.embeddings.parameters():
            parameter.mul_(3)  # rounding must not decide what is decoded
    there = copy.deepcopy(model).to(device)
    lengths = np.random.default_rng(1).integers(3, 30, (200, 2))
    batch = next(make_batches(lengths, 1_000, SMALL.target_vocab_size))
    losses = [
        accumulate_gradient(each.train(), batch, batch.num_target_tokens, 0.1, "float32").item()
        for each in (model, there)
    ]
    yield "loss of a batch, float32, to 1e-4", abs(losses[1] / losses[0] - 1) < 1e-4
    worst = max(
        float((own.grad.cpu() - other.grad).norm() / (other.grad.norm() + 1e-6))
        for own, other in zip(there.parameters(), model.parameters(), strict=True)
        if own.grad is not None and other.grad is not None and other.grad.norm() > 1e-4
    )
    yield "gradients, float32, to 1%", worst < 0.01
    sources = [row[row > 0].tolist()[:-1] for row in batch.source]
    for name, config in (("beam search", SearchConfig()), ("sampling", SearchConfig(sampling=True))):
        found, expected = (
            [best.ids for [best] in generate(TorchEngine(each.eval()), sources, config)]
            for each in (there, model)
        )
        same = sum(map(list.__eq__, found, expected)) / len(expected)
        yield f"{name}: 99% of the outputs are the CPU's", same >= 0.99


def training(device: torch.device, shape: Shape, precision: Literal["float32", "bfloat16"]) -> dict[str, Any]:
    """The best of several turns of training steps."""
    torch.accelerator.reset_peak_memory_stats()
    (lengths,) = (draw() for draw in shape.workloads.values())
    drawn = make_batches(lengths, shape.batch_tokens, shape.model.target_vocab_size)
    batches = [next(drawn) for _ in range(shape.steps)]
    contender = build_contender(shape, Entry(OURS, precision), 1 + int(lengths.max()), device)
    turns = [take_turn(contender, batches, shape.model, device) for _ in range(1 + ROUNDS)][1:]
    best, memory = max(turns, key=lambda turn: turn.target_tokens_per_second), memory_bytes(device)
    return {
        "precision": precision,
        "target_tokens_per_second": best.target_tokens_per_second,
        "teraflops_per_second": best.flops_per_second / 1e12,
        "share_of_peak": best.flops_per_second / matmul_peak(device, precision),
        "memory_bytes": memory,
    }


def decoding(device: torch.device, config: ModelConfig, precision: Precision) -> dict[str, Any]:
    """The best of several decodings of the same sentences, with the paper's beam of 4 and alone (greedy)."""
    torch.manual_seed(1)
    engine = build_engine(build_model(config).to(device).eval(), precision)
    random = np.random.default_rng(1)
    sources = random.integers(5, config.source_vocab_size, (NUM_SENTENCES, OUTPUT_TOKENS)).tolist()
    result: dict[str, Any] = {"precision": precision}
    for beam_size in (1, 4):
        search = SearchConfig(beam_size=beam_size, min_length=OUTPUT_TOKENS, max_length=OUTPUT_TOKENS)
        seconds = []
        for _ in range(1 + ROUNDS):
            wait_for(device)
            began = time.perf_counter()
            num_found = sum(1 for _ in generate(engine, sources, search, batching=Batching(tokens=32_768)))
            seconds.append(time.perf_counter() - began)
        result[f"sentences_per_second_beam_{beam_size}"] = num_found / min(seconds[1:])
    return result


def gpu_tests() -> tuple[str, bool]:
    """The last line of the tests that need a CUDA device, and whether all passed."""
    marked = [str(file) for file in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *sorted(marked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or ["no output"])[-1], done.returncode == 0


def measure(device: torch.device) -> dict[str, Any]:
    """All results."""
    found, said = dict(checks(device)), "not of this device"
    if device.type == "cuda":
        said, found["tests marked gpu"] = gpu_tests()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "command": "make bench-gpu",
        "environment": environment(device),
        "checks": found,
        "gpu_tests": said,
        "training": [training(device, TRAINED, precision) for precision in PRECISIONS],
        "decoding": [decoding(device, TRAINED.model, precision) for precision in PRECISIONS],
    }


def page(found: dict[str, Any]) -> Iterator[str]:
    """The results as lines of text."""
    where = found["environment"]
    yield f"{where['device_name']} ({where['device']}), torch {where['torch']}, {found['date']}"
    for name, holds in found["checks"].items():
        yield f"{'ok    ' if holds else 'FAILED'} {name}"
    yield f"tests marked gpu: {found['gpu_tests']}"
    for row in found["training"]:
        yield (
            f"training  {row['precision']:<9}{row['target_tokens_per_second']:>10,.0f} target tokens/s"
            f"{row['teraflops_per_second']:>8.1f} TFLOP/s{row['share_of_peak']:>6.0%} of the measured peak"
            f"{row['memory_bytes'] / 2**30:>7.1f} GiB"
        )
    for row in found["decoding"]:
        one, four = (row[f"sentences_per_second_beam_{beam_size}"] for beam_size in (1, 4))
        yield f"decoding  {row['precision']:<9}{one:>10,.0f} sentences/s greedy{four:>10,.0f} with beam 4"


def main() -> int:
    """Measure, print, and keep it in `results/`; 1 if a check fails."""
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None:
        print(f"NOT RUN: torch {torch.__version__} finds no accelerator on this machine")
        return 0
    found = measure(device)
    print("\n".join(page(found)))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(found["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
