"""What Ray costs, and what a billion pairs would take on 100 machines, from figures of this one.

    ALLYOUNEED_DATA=/data python benchmarks/cluster.py [PAIRS] [LINES]

Prepares generated text (see `preparation.py`) and translates lines by a base model with random weights in
int8, in this process and its workers and then by a Ray cluster of this machine, on all cores. Of the process
that commands, processor time is measured, too: it reads and writes for all, so it is what bounds a cluster.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.hardware.cluster import Cluster
from allyouneed.hardware.machine import environment
from allyouneed.hardware.processor import available_cores
from allyouneed.lab.bench.decoding_workloads import task_of_shape
from allyouneed.preparation.preparing import prepare
from allyouneed.runs.cluster_translation import ClusterTranslator
from allyouneed.runs.loading import load_translator
from allyouneed.tasks.requests import TranslationRequest
from allyouneed.tasks.task import SOURCE_TOKENIZER
from preparation import words_of, write_text

RESULTS = Path(__file__).parent / "results" / "cluster.json"
NUM_PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
NUM_LINES = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
LENGTH, BEAM_SIZE = 15, 4
BILLION, MACHINES, CORES = 10**9, 100, 16


class Clock:
    """Seconds, and seconds of the processor that this process has used."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def figures(self, count: int) -> dict[str, float]:
        """What `count` pieces took."""
        seconds, cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        return {"per_second": count / seconds, "commander_microseconds": 1e6 * cpu / count}


def encoding(files: list[Path], folder: Path, workers: int | Cluster) -> dict[str, float]:
    """Figures of the encoding of pairs."""
    figures: dict[str, float] = {}

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        clock = Clock()
        yield lambda count: None
        if phase == "train":
            figures.update(clock.figures(NUM_PAIRS))

    prepare(folder, CorpusFiles(*files), config=DataConfig(), num_workers=workers, watch=watch)
    return figures


def prepared(folder: Path, data: Path) -> dict[str, dict[str, float]]:
    """Figures of `prepare`."""
    lengths = np.random.default_rng(1).poisson(24, NUM_PAIRS).clip(1) + 1
    files = [folder / "text.en", folder / "text.de"]
    for seed, file in enumerate(files):
        write_text(file, NUM_PAIRS, *words_of(data, file.suffix[1:]), lengths, seed)
    local = encoding(files, folder / "local", available_cores())
    with Cluster() as cluster:
        return {"local": local, "ray": encoding(files, folder / "ray", cluster)}


def translated(folder: Path) -> dict[str, dict[str, float]]:
    """Figures of `translate`."""
    search: Any = {"beam_size": BEAM_SIZE, "min_length": LENGTH, "max_length": LENGTH}
    shape = ModelConfig(source_vocab_size=37_000, target_vocab_size=37_000)
    task = task_of_shape(shape, NUM_LINES, LENGTH, [], search, folder)
    model = task.folders["allyouneed"]
    tokenizer = Tokenizer.load(model / SOURCE_TOKENIZER)
    texts = [tokenizer.decode(ids) for ids in task.sources]
    requests = [TranslationRequest(number, text) for number, text in enumerate(texts)]
    translator = load_translator(model, precision="int8")
    clock = Clock()
    expected = [*translator.answer(requests, **search)]
    local = clock.figures(NUM_LINES)
    with Cluster() as cluster:
        on_cluster = ClusterTranslator(
            cluster, [model], shortlist=None, device="cpu", precision="int8", threads=1
        )
        assert [*on_cluster.answer(requests[:2_048], **search)] == expected[:2_048]  # loads the model
        clock = Clock()
        assert [*on_cluster.answer(requests, **search)] == expected
        return {"local": local, "ray": clock.figures(NUM_LINES)}


def arithmetic(figures: dict[str, dict[str, float]]) -> dict[str, float]:
    """Hours for a billion: of the process that commands, and of the cores of all machines."""
    each_core = figures["ray"]["per_second"] / available_cores()
    return {
        "commander_hours": BILLION * figures["ray"]["commander_microseconds"] / 1e6 / 3600,
        "machines_hours": BILLION / (each_core * MACHINES * CORES) / 3600,
    }


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    if "ALLYOUNEED_DATA" not in os.environ:
        print("NOT RUN: needs ALLYOUNEED_DATA, the folder of the corpora")
        return
    data = Path(os.environ["ALLYOUNEED_DATA"])
    result: dict[str, object] = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "pairs": NUM_PAIRS,
        "lines": NUM_LINES,
    }
    for name, measure in (("prepare", lambda folder: prepared(folder, data)), ("translate", translated)):
        with TemporaryDirectory() as folder:
            figures = measure(Path(folder))
        result[name] = figures
        result[f"{name}_of_a_billion"] = arithmetic(figures)
        print(name, json.dumps({name: figures, **arithmetic(figures)}, indent=1), flush=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
