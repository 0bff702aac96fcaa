"""How soon the program answers, beside Python itself and beside the import of torch.

All take turns, in fresh processes with warm caches; medians are reported.
"""

import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from allyouneed.hardware.machine import environment

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
RESULTS = Path(__file__).parent / "results" / "startup.json"
CONTENDERS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "allyouneed --version": ["-m", "allyouneed", "--version"],
    "allyouneed --help": ["-m", "allyouneed", "--help"],
    "allyouneed translate --help": ["-m", "allyouneed", "translate", "--help"],
}


def seconds(arguments: list[str]) -> float:
    """How long Python takes for the arguments."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    rounds = [{name: seconds(arguments) for name, arguments in CONTENDERS.items()} for _ in range(ROUNDS + 1)]
    medians = {name: statistics.median(of[name] for of in rounds[1:]) for name in CONTENDERS}
    for name, median in medians.items():
        print(f"{name:<30}{median:>8.3f} s")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": ROUNDS,
        "seconds": medians,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
