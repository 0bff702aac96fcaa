"""How fast `train` is on a CPU beside Marian in C++ (`pip install pymarian`), on the same model and tokens.

The small shape of `allyouneed bench train` in float32, on sub-words of Multi30k (in ALLYOUNEED_DATA), with
dropout and label smoothing 0.1 and Adam. Both take turns in fresh processes with all cores. Batches have at
most 4,096 tokens a side, but Marian fills them by its own rule, so target tokens per second are compared: the
last speed that a program logs in its turn. Medians are reported.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from allyouneed.data.store import PairStore
from allyouneed.hardware.machine import environment
from allyouneed.lab.bench.training_workloads import SHAPES
from allyouneed.storage.run_log import read_log

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
RESULTS = Path(__file__).parent / "results" / "training_marian.json"
PYMARIAN = shutil.which("pymarian") or shutil.which("pymarian", path=Path(sys.executable).parent)
CORPUS = Path(os.environ.get("ALLYOUNEED_DATA", "data")) / "multi30k"
SHAPE = SHAPES["small"]
CORES, SECONDS, UPDATES = os.cpu_count() or 1, 30, 40


def allyouneed(*arguments: object) -> None:
    """Run the program."""
    command = [sys.executable, "-m", "allyouneed", *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=True)


def write_data(folder: Path) -> None:
    """Multi30k, prepared, and the same tokens as words of Marian's, with their vocabulary."""
    sides = "--source", CORPUS / "train.en.gz", "--target", CORPUS / "train.de.gz"
    vocab_size = SHAPE.model.target_vocab_size
    allyouneed("prepare", folder / "data", *sides, "--vocab-size", vocab_size)
    store = PairStore(folder / "data" / "train")
    for side, texts in (("source", store.source), ("target", store.target)):
        sentences = map(texts.sentence, range(store.num_pairs))
        lines = (" ".join(f"t{token}" for token in tokens) for tokens in sentences)
        (folder / side).write_text("".join(f"{line}\n" for line in lines))
    words = ["</s>", "<unk>", *(f"t{token}" for token in range(2, vocab_size))]
    (folder / "vocab.yml").write_text("".join(f'"{word}": {number}\n' for number, word in enumerate(words)))


def marian(folder: Path, aside: Path) -> float:
    """Target words per second of Marian, end symbols included."""
    model = SHAPE.model
    assert PYMARIAN
    options: dict[str, Any] = {
        "train-sets": [folder / "source", folder / "target"],
        "vocabs": [folder / "vocab.yml"] * 2,
        "model": aside / "model.npz",
        "type": "transformer",
        "cpu-threads": CORES,
        "dim-emb": model.d_model,
        "enc-depth": model.num_layers,
        "dec-depth": model.num_layers,
        "transformer-heads": model.num_heads,
        "transformer-dim-ffn": model.d_ff,
        "transformer-ffn-activation": "relu",
        "transformer-dropout": model.dropout,
        "label-smoothing": 0.1,
        "mini-batch": 1_000,
        "mini-batch-words": SHAPE.batch_tokens,
        "max-length": 200,
        "learn-rate": 0.0003,
        "optimizer-params": [0.9, 0.98, 1e-9],
        "after": f"{UPDATES}u",
        "disp-freq": f"{UPDATES // 4}u",
        "workspace": 2_048,
    }
    command = [PYMARIAN, "--tied-embeddings-all", "--sync-sgd"]
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        command += [f"--{name}", *map(str, values)]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(re.findall(r"([\d.]+) words/s", ended.stderr)[-1])


def ours(folder: Path, aside: Path) -> float:
    """Target tokens per second of `train`, end symbols included."""
    model = {name: getattr(SHAPE.model, name) for name in ("num_layers", "d_model", "d_ff", "num_heads")}
    training = {
        "batch_tokens": SHAPE.batch_tokens,
        "micro_batch_tokens": SHAPE.micro_batch_tokens,
        "precision": "'float32'",
        "budget_seconds": SECONDS,
    }
    settings = [f"model.{name}={value}" for name, value in model.items()]
    settings += [f"training.{name}={value}" for name, value in training.items()]
    allyouneed("train", aside / "run", "--data", folder / "data", "--set", *settings)
    logged = [event for event in read_log(aside / "run" / "log.jsonl") if event["event"] == "train"]
    return float(logged[-1]["target_tokens_per_second"])


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    if PYMARIAN is None or not CORPUS.is_dir():
        print(f"NOT RUN: needs {CORPUS if PYMARIAN else 'pymarian'}")
        return
    speeds: dict[str, list[float]] = {"allyouneed": [], "marian": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for number in range(ROUNDS):
            for program, speed in (("allyouneed", ours), ("marian", marian)):
                aside = folder / f"{program}-{number}"
                aside.mkdir()
                speeds[program].append(speed(folder, aside))
    ratio = statistics.median(a / b for a, b in zip(speeds["allyouneed"], speeds["marian"], strict=True))
    for program, found in speeds.items():
        print(f"{program:<12}{statistics.median(found):>8.0f} target tokens/s")
    print(f"allyouneed is {ratio:.2f} times as fast as Marian.")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": ROUNDS,
        "target_tokens_per_second": speeds,
        "times_as_fast": ratio,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
