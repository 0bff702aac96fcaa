"""The pairs per second and the peak of memory of `allyouneed prepare` on words that never come twice.

Each side of each of a million pairs is 12 words of 7 random letters, the worst that the learning of a
vocabulary can meet: what it keeps grows with the number of distinct words.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from allyouneed.hardware.machine import environment

NUM_PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
RESULTS = Path(__file__).parent / "results" / "prepare_memory.json"
WORDS, LETTERS = 12, 7
WRITTEN_AT_ONCE = 10_000
SEED = 1
COMMAND = """
import sys
from allyouneed.cli.program import main
code = main(sys.argv[1:])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]))
sys.exit(code)
"""
"""Runs the program, and prints the peak of the resident memory of its process in KiB."""


def write_words(path: Path, draw: np.random.Generator) -> None:
    """A file of random words, `NUM_PAIRS` lines of them."""
    with path.open("wb") as file:
        for begin in range(0, NUM_PAIRS, WRITTEN_AT_ONCE):
            rows = min(WRITTEN_AT_ONCE, NUM_PAIRS - begin)
            text = draw.integers(ord("a"), ord("z") + 1, (rows, WORDS * (LETTERS + 1)), np.uint8)
            text[:, LETTERS :: LETTERS + 1] = ord(" ")
            text[:, -1] = ord("\n")
            file.write(text.tobytes())


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, data = (Path(folder, name) for name in ("words.en", "words.de", "data"))
        draw = np.random.default_rng(SEED)
        write_words(source, draw)
        write_words(target, draw)
        arguments: list[str | Path] = ["prepare", data, "--source", source, "--target", target]
        began = time.perf_counter()
        ran = subprocess.run([sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, check=True)
        seconds = time.perf_counter() - began
    peak = int(ran.stdout.split()[-1]) * 1024
    print(f"{NUM_PAIRS / seconds:,.0f} pairs/s, {peak / 2**20:,.0f} MiB of resident memory at the peak")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "pairs": NUM_PAIRS,
        "corpus_bytes": 2 * NUM_PAIRS * WORDS * (LETTERS + 1),
        "seconds": seconds,
        "pairs_per_second": NUM_PAIRS / seconds,
        "peak_resident_bytes": peak,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
