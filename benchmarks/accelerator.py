"""An accelerator, in one script: whether it is right, how fast it trains and decodes, and where time goes.

`make bench-gpu` runs it: `python benchmarks/accelerator.py [OUT] [--only training|decoding] [--tiny]`. It is
made for eight minutes on a large card. Correctness comes first, and OUT/accelerator.json (by default in
`benchmarks/results`) is written after every result, so that whoever ends it early loses only what was to
follow. `--tiny` runs all of it at tiny sizes, also on a CPU, to see whether it works.
"""

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks import accelerator_decoding, accelerator_training  # noqa: E402

from allyouneed.config.model import ModelConfig  # noqa: E402
from allyouneed.hardware.machine import environment  # noqa: E402
from allyouneed.lab.bench.training_workloads import make_batches  # noqa: E402
from allyouneed.model.architectures import build_model  # noqa: E402
from allyouneed.training.update import accumulate_gradient  # noqa: E402

Measure = Callable[[torch.device, Path, bool], Iterator[tuple[str, Any]]]
PARTS: dict[str, Measure] = {
    "training": accelerator_training.measure,
    "decoding": accelerator_decoding.measure,
}
"""Name -> function of device, folder and whether sizes are tiny, that yields results with their names."""
_TEST_SECONDS = 90
_MAY_DIFFER = ("the same bits again",)
"""Checks that are told and not judged: on a GPU some sums of gradients have no fixed order."""
_SMALL = ModelConfig(
    source_vocab_size=500,
    target_vocab_size=500,
    d_model=128,
    d_ff=256,
    num_layers=2,
    num_heads=4,
    dropout=0.0,
)


def against_the_cpu(device: torch.device) -> dict[str, bool]:
    """Whether the loss and the gradients of a batch are those of the CPU."""
    torch.manual_seed(1)
    model = build_model(_SMALL)
    there = copy.deepcopy(model).to(device)
    lengths = np.random.default_rng(1).integers(3, 30, (200, 2))
    batch = next(make_batches(lengths, 1_000, _SMALL.target_vocab_size))
    losses = [
        accumulate_gradient(each.train(), batch, batch.num_target_tokens, 0.1, "float32").item()
        for each in (model, there)
    ]
    worst = max(
        float((own.grad.cpu() - other.grad).norm() / (other.grad.norm() + 1e-6))
        for own, other in zip(there.parameters(), model.parameters(), strict=True)
        if own.grad is not None and other.grad is not None and other.grad.norm() > 1e-4
    )
    return {
        "loss of a batch, float32, to 1e-4": abs(losses[1] / losses[0] - 1) < 1e-4,
        "gradients, float32, to 1%": worst < 0.01,
    }


def gpu_tests() -> dict[str, Any]:
    """The last line of the tests that need a CUDA device, and whether all passed."""
    marked = [str(file) for file in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *sorted(marked)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_TEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "last line": f"not done after {_TEST_SECONDS} s"}
    lines = done.stdout.strip().split("\n")
    return {"passed": done.returncode == 0, "last line": lines[-1], "failed": _failures(lines)}


def _failures(lines: Sequence[str]) -> list[str]:
    return [line[:200] for line in lines if line.startswith(("FAILED", "ERROR"))]


def measure(device: torch.device, out: Path, tiny: bool, only: str | None) -> Iterator[tuple[str, Any]]:
    """Yield all results with their names; a part that fails says so, and the next one follows."""
    first: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
        "against the CPU": lambda: iter([("against the CPU", against_the_cpu(device))])
    }
    if device.type == "cuda":
        first["tests marked gpu"] = lambda: iter([("tests marked gpu", gpu_tests())])
    parts = {name: partial(part, device, out, tiny) for name, part in PARTS.items() if only in (None, name)}
    for name, part in (first | parts).items():
        try:
            yield from part()
        except Exception as error:
            yield f"{name}: failed", {"error": repr(error)[:2_000]}


def failed(results: dict[str, Any]) -> list[str]:
    """What is wrong: a part that failed, a check that does not hold, outputs other than the CPU's."""
    wrong = [name for name in results if name.endswith(": failed")]
    if not results.get("tests marked gpu", {"passed": True})["passed"]:
        wrong.append("tests marked gpu")
    for name, found in results.items():
        if name.endswith((": checks", "against the CPU")):
            wrong += [
                f"{name}: {check}"
                for check, holds in found.items()
                if (holds is False and check not in _MAY_DIFFER)
                or (check.endswith(("as the CPU's", "the same")) and holds < 0.99)
            ]
    return wrong


def line(name: str, found: dict[str, Any], seconds: float) -> str:
    """A result as a line of text: the numbers and words of it, without tables."""
    parts = [
        f"{key} {value:,.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in found.items()
        if not isinstance(value, dict | list)
    ]
    return f"{seconds:5.0f} s  {name}: {', '.join(parts)}"


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the results; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", choices=[*PARTS])
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args(arguments)
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None and not given.tiny:
        print(f"not measured: torch {torch.__version__} finds no accelerator on this machine")
        print("where there is one: python benchmarks/accelerator.py OUT")
        return 0
    device = device or torch.device("cpu")
    given.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    where = environment(device)
    head = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["python benchmarks/accelerator.py", *arguments]),
        "environment": where,
    }
    print(f"{where['device_name']} ({device.type}), torch {torch.__version__}", flush=True)
    began = time.monotonic()
    for name, found in measure(device, given.out, given.tiny, given.only):
        results[name] = found
        print(line(name, found, time.monotonic() - began), flush=True)
        written = json.dumps({**head, "results": results}, indent=1) + "\n"
        (given.out / "accelerator.json").write_text(written)
    for each in (wrong := failed(results)):
        print(f"WRONG  {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
