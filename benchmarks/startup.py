"""How soon the program answers, beside Python itself and beside the import of torch.

`translate` translates one sentence with a model of the demo's size, from the start of the process to its end.
All take turns, in fresh processes with warm caches; medians are reported.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from allyouneed.config.presets import demo
from allyouneed.hardware.machine import environment
from allyouneed.lab.demo.demo_run import run_demo
from allyouneed.lab.demo.grammar import generate_demo_corpus

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
RESULTS = Path(__file__).parent / "results" / "startup.json"
SENTENCE = b"The old man sees a small dog in the garden.\n"


def contenders(model: Path) -> Mapping[str, Sequence[str]]:
    """Name -> arguments of Python."""
    return {
        "python": ["-c", "pass"],
        "import torch": ["-c", "import torch"],
        "allyouneed --version": ["-m", "allyouneed", "--version"],
        "allyouneed --help": ["-m", "allyouneed", "--help"],
        "allyouneed translate --help": ["-m", "allyouneed", "translate", "--help"],
        "allyouneed translate": ["-m", "allyouneed", "translate", str(model), "--device", "cpu"],
    }


def model_of_the_demo(folder: Path) -> Path:
    """A model of the demo's size after one update, which takes longest: it ends no sentence by itself."""
    corpus, config = generate_demo_corpus(4_000, 10, 10), demo().replace(training={"num_steps": 1})
    run_demo(folder, torch.device("cpu"), corpus=corpus, config=config)
    return folder / "model"


def seconds(arguments: Sequence[str]) -> float:
    """How long Python takes for the arguments."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], input=SENTENCE, capture_output=True, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    with TemporaryDirectory() as folder:
        arguments_of = contenders(model_of_the_demo(Path(folder)))
        rounds = [
            {name: seconds(arguments) for name, arguments in arguments_of.items()} for _ in range(ROUNDS + 1)
        ]
    medians = {name: statistics.median(of[name] for of in rounds[1:]) for name in arguments_of}
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
