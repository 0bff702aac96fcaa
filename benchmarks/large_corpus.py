"""`prepare` and the reader behind training on 36 million pairs, as many as the paper's English-French has.

    python benchmarks/large_corpus.py 36_000_000

The corpus is generated: short lines of frequent and rare words, some of them new. Memory is that of all
processes, shared pages counted once. The reader opens the prepared data as `train` does, with base's batches.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from allyouneed.config.run import TrainingConfig
from allyouneed.data.batch_plans import make_batch
from allyouneed.hardware.machine import environment
from allyouneed.preparation.prepared_data import PreparedData
from allyouneed.training.trainer import schedule_of

RESULTS = Path(__file__).parent / "results" / "large_corpus.json"
WORDS, MEAN_WORDS, NEW_WORDS, AT_ONCE = 60_000, 7, 0.005, 50_000
VOCAB_SIZE, READ_SECONDS = 16_000, 60


def write_text(path: Path, num_pairs: int, seed: int) -> None:
    """A file of short lines."""
    draw = np.random.default_rng(seed)
    words = np.array(
        [f"{n * 2654435761 % 36**5:x}"[: 2 + n % 7] + f"{n % 97:x}" for n in range(WORDS)], object
    )
    with path.open("wb") as file:
        for begin in range(0, num_pairs, AT_ONCE):
            lengths = draw.poisson(MEAN_WORDS, min(AT_ONCE, num_pairs - begin)).clip(1)
            chosen = words[np.minimum(draw.zipf(1.15, int(lengths.sum())), WORDS) - 1]
            new = (draw.random(len(chosen)) < NEW_WORDS).nonzero()[0]
            chosen[new] = [f"n{n}" for n in draw.integers(0, 10_000_000, len(new))]
            ends = lengths.cumsum()
            chosen[ends - 1] += "\n"
            file.write(" ".join(chosen.tolist()).replace("\n ", "\n").encode())


def memory_of(pid: int) -> int:
    """Bytes of memory of a process and those that it has started."""
    total = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().split(b"\n"):
            if line.startswith(b"Pss:"):
                total += int(line.split()[1]) * 1024
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(memory_of(int(child)) for child in children.read_bytes().split())
    return total


def prepared(folder: Path) -> tuple[float, int]:
    """Prepare the text; the seconds, and the most memory."""
    began, most = time.perf_counter(), 0
    sides = "--source", folder / "source", "--target", folder / "target"
    command = ["prepare", folder / "data", *sides, "--vocab-size", VOCAB_SIZE]
    process = subprocess.Popen([sys.executable, "-m", "allyouneed", *map(str, command)])
    while process.poll() is None:
        most = max(most, memory_of(process.pid))
        time.sleep(0.5)
    assert process.returncode == 0
    return time.perf_counter() - began, most


def batches(data: Path) -> Iterator[tuple[int, int]]:
    """Target tokens and pairs of one batch after another."""
    store = PreparedData(data).train
    training = TrainingConfig()
    training = training.replace(micro_batch_tokens=training.resolved_micro_batch_tokens())
    for planned in schedule_of(store, training).batches_from(0):
        read = [make_batch(store, micro) for micro in planned.micro_batches]
        yield sum(batch.num_target_tokens for batch in read), sum(len(batch.pairs) for batch in read)


def resident() -> int:
    """Bytes of memory of this process that are not of files."""
    lines = Path("/proc/self/status").read_bytes().split(b"\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"RssAnon:"))


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    num_pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 36_000_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for seed, name in enumerate(("source", "target")):
            write_text(folder / name, num_pairs, seed)
        size = sum((folder / name).stat().st_size for name in ("source", "target"))
        print(f"{num_pairs:,} pairs, {size / 1e6:,.0f} MB", flush=True)
        seconds, most = prepared(folder)
        print(f"prepared: {num_pairs / seconds:,.0f} pairs/s, {most >> 20:,} MiB", flush=True)

        began = time.perf_counter()
        reading = batches(folder / "data")
        next(reading)
        first = time.perf_counter() - began
        before, tokens, pairs, began = resident(), 0, 0, time.perf_counter()
        while time.perf_counter() - began < READ_SECONDS:
            of_batch = next(reading)
            tokens, pairs = tokens + of_batch[0], pairs + of_batch[1]
        read_seconds, after = time.perf_counter() - began, resident()
    print(f"first batch: {first:.2f} s; then {tokens / read_seconds:,.0f} target tokens/s")
    print(f"memory of the reader: {before >> 20:,} MiB, after {pairs:,} pairs {after >> 20:,} MiB")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "pairs": num_pairs,
        "corpus_bytes": size,
        "prepare": {"seconds": seconds, "pairs_per_second": num_pairs / seconds, "most_memory_bytes": most},
        "read": {
            "first_batch_seconds": first,
            "target_tokens_per_second": tokens / read_seconds,
            "pairs_per_second": pairs / read_seconds,
            "memory_bytes": [before, after],
        },
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
