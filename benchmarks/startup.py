"""How soon the program answers, and in how much memory, beside Python itself, `import torch` and CTranslate2.

    python benchmarks/startup.py MODEL [ROUNDS]

`translate` translates one sentence with MODEL, such as the demo's, in int8, from the start of the process to
its end; CTranslate2 does so with the exported model. All take turns, in fresh processes with warm caches;
medians are reported. Memory is the most that was resident.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from allyouneed.hardware.machine import environment
from allyouneed.interop.exporting import export_model

RESULTS = Path(__file__).parent / "results" / "startup.json"
SENTENCE = b"The quiet child knows the young woman.\n"
CTRANSLATE2 = """
import sys
import ctranslate2, tokenizers
folder = sys.argv[1]
tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/source_tokenizer.json")
model = ctranslate2.Translator(folder, "cpu", compute_type="int8", intra_threads=1)
tokens = tokenizer.encode(sys.stdin.readline().strip()).tokens
print(model.translate_batch([tokens], beam_size=4)[0].hypotheses[0])
"""


_WATCH = """
import os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - began, usage.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""A small process that starts another: the peak memory of a process begins with that of its parent."""


class Measured(NamedTuple):
    """What a process took."""

    seconds: float
    mib: float


def contenders(model: Path, exported: Path) -> Mapping[str, Sequence[str]]:
    """Name -> arguments of Python."""
    return {
        "python": ["-c", "pass"],
        "import torch": ["-c", "import torch"],
        "allyouneed --version": ["-m", "allyouneed", "--version"],
        "allyouneed --help": ["-m", "allyouneed", "--help"],
        "allyouneed translate --help": ["-m", "allyouneed", "translate", "--help"],
        "allyouneed translate": ["-m", "allyouneed", "translate", str(model), "--precision", "int8"],
        "CTranslate2": ["-c", CTRANSLATE2, str(exported)],
    }


def measured(arguments: Sequence[str]) -> Measured:
    """What Python takes for the arguments."""
    command = [sys.executable, "-c", _WATCH, sys.executable, *arguments]
    return Measured(*map(float, subprocess.check_output(command, input=SENTENCE).split()))


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    model, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with TemporaryDirectory() as folder:
        export_model(model, "ctranslate2", Path(folder) / "exported")
        arguments_of = contenders(model, Path(folder) / "exported")
        found = [{name: measured(each) for name, each in arguments_of.items()} for _ in range(rounds + 1)]
    medians = {
        name: Measured(*map(statistics.median, zip(*(of[name] for of in found[1:]), strict=True)))
        for name in arguments_of
    }
    for name, each in medians.items():
        print(f"{name:<30}{each.seconds:>8.3f} s{each.mib:>8.0f} MiB")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "rounds": rounds,
        **{name: each._asdict() for name, each in medians.items()},
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
