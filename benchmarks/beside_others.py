"""What share of its speed `train` and `translate` keep while other programs use half of the cores.

Training takes turns with both values of `training.threads_share`, translation with a worker per core and with
one worker whose threads share operations; each undisturbed and beside programs that never wait, one per two
cores. All run in fresh processes on the demo's corpus; medians are reported.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch

from allyouneed.hardware.machine import environment
from allyouneed.lab.demo.grammar import generate_demo_corpus
from allyouneed.storage.run_log import read_log

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
RESULTS = Path(__file__).parent / "results" / "beside_others.json"
CORES = os.cpu_count() or 1
TRAINING_SECONDS, NUM_SENTENCES = 15, 3_000
TRAINING = "micro_batches", "operations"
TRANSLATION = {"workers": ["--workers", str(CORES)], "threads": ["--workers", "1", "--threads", str(CORES)]}


def allyouneed(*arguments: str | Path, text: Path | None = None) -> float:
    """Run the program, with `text` as its input; the seconds that it took."""
    command, began = [sys.executable, "-m", "allyouneed", *arguments], time.perf_counter()
    subprocess.run(command, input=text.read_bytes() if text else None, capture_output=True, check=True)
    return time.perf_counter() - began


@contextmanager
def others(num_programs: int) -> Iterator[None]:
    """So many programs that never wait."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num_programs)]
    try:
        yield
    finally:
        for program in started:
            program.kill()
            program.wait()


def write_data(folder: Path) -> None:
    """The demo's corpus, prepared, and sentences to translate."""
    pairs = generate_demo_corpus().train
    for part, chosen in {"train": pairs, "test": pairs[:NUM_SENTENCES]}.items():
        (folder / f"{part}.en").write_text("".join(f"{pair.source}\n" for pair in chosen))
        (folder / f"{part}.de").write_text("".join(f"{pair.target}\n" for pair in chosen))
    sides: list[str | Path] = ["--source", folder / "train.en", "--target", folder / "train.de"]
    allyouneed("prepare", folder / "data", *sides, "--vocab-size", "2000")
    (folder / "one.en").write_text("the dog sleeps .\n")


def training_speed(folder: Path, run: Path, threads_share: str) -> float:
    """Target tokens per second."""
    settings = f"training.threads_share='{threads_share}'", f"training.budget_seconds={TRAINING_SECONDS}"
    allyouneed("train", run, "--data", folder / "data", "--preset", "demo", "--set", *settings)
    logged = [event for event in read_log(run / "log.jsonl") if event["event"] == "train"]
    return float(statistics.median(event["target_tokens_per_second"] for event in logged))


def translation_speed(folder: Path, options: list[str]) -> float:
    """Sentences per second, the time of the start left out."""
    start, whole = (
        allyouneed("translate", folder / "model", *options, text=folder / name)
        for name in ("one.en", "test.en")
    )
    return NUM_SENTENCES / (whole - start)


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    speeds: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        run = folder / "model"
        training_speed(folder, run, TRAINING[0])  # warms up, and trains the model that translates
        for number in range(ROUNDS):
            for num_others in (0, CORES // 2):
                with others(num_others):
                    for kind in TRAINING:
                        new = folder / f"{number}-{num_others}-{kind}"
                        speeds[f"train, {kind}", num_others].append(training_speed(folder, new, kind))
                    for kind, options in TRANSLATION.items():
                        speeds[f"translate, {kind}", num_others].append(translation_speed(folder, options))
    rows = {}
    print(f"{'':<28}{'undisturbed':>12}{'beside others':>15}{'share':>7}")
    for what in dict.fromkeys(name for name, _ in speeds):
        both = speeds[what, 0], speeds[what, CORES // 2]
        alone, beside = map(statistics.median, both)
        share = statistics.median(after / before for before, after in zip(*both, strict=True))
        rows[what] = {"undisturbed": alone, "beside_others": beside, "share": share}
        print(f"{what:<28}{alone:>12.0f}{beside:>15.0f}{share:>7.2f}")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": ROUNDS,
        "others": CORES // 2,
        "units": {"train": "target tokens per second", "translate": "sentences per second"},
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
