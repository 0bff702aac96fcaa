"""How fast `allyouneed prepare` is, beside other ways to turn text into ids.

    ALLYOUNEED_DATA=/data python benchmarks/preparation.py 5_000_000 [sentencepiece]

The corpus is generated: sentences of about 25 words, drawn as often as Multi30k and Tatoeba have them, and
some new words, as numbers and names are in news. All read two text files, and write the ids of both sides.
`allyouneed` also cleans the pairs, counts what it drops and writes the cleaned text; its first figure is
without the search for repeats, its last one has the learning of the vocabulary. The others use as many
processes or threads as there are cores. With `sentencepiece`, that is the only other one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import tokenizers
import torch

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import read_lines
from allyouneed.hardware.machine import environment
from allyouneed.hardware.processor import available_cores
from allyouneed.preparation.preparing import prepare

RESULTS = Path(__file__).parent / "results"
SEED, VOCAB_SIZE = 1, 37_000
MEAN_WORDS, NEW_WORDS = 25, 0.015
WRITTEN_AT_ONCE, ENCODED_AT_ONCE = 20_000, 4_096
SAMPLE_LINES = 200_000


def words_of(data: Path, suffix: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The words of a language, and how often each occurs."""
    column = ["en", "de"].index(suffix)
    lines = [*read_lines(data / "multi30k" / f"train.{suffix}.gz")]
    lines += [line.split("\t")[column] for line in read_lines(data / "tatoeba" / "en-de.train.tsv.gz")]
    counts = Counter(word for line in lines for word in line.split())
    shares = np.array(list(counts.values()), np.float64)
    return list(counts), shares / shares.sum()


def write_text(path: Path, num_lines: int, words: list[str], shares: Any, lengths: Any, seed: int) -> None:
    """A file of sentences."""
    draw = np.random.default_rng(seed)
    known, letters = np.array(words, object), np.array(list("abcdefghijklmnopqrstuvwxyz0123456789"))
    with path.open("wb") as file:
        for begin in range(0, num_lines, WRITTEN_AT_ONCE):
            ends = lengths[begin : begin + WRITTEN_AT_ONCE].cumsum()
            chosen = known[draw.choice(len(words), int(ends[-1]), p=shares)]
            new = draw.random(len(chosen)) < NEW_WORDS
            chosen[new] = ["".join(row) for row in letters[draw.integers(0, len(letters), (new.sum(), 7))]]
            lines = (" ".join(part) for part in np.split(chosen, ends[:-1]))
            file.write(("\n".join(lines) + "\n").encode())


def of_this_program(files: list[Path], folder: Path, num_pairs: int) -> dict[str, float]:
    """Seconds to encode, and to prepare from beginning to end."""
    without, _ = timed(CorpusFiles(*files, drop_repeats=False), folder / "with-repeats", num_pairs)
    encoding, everything = timed(CorpusFiles(*files), folder / "data", num_pairs)
    return {
        "allyouneed, repeats kept": without,
        "allyouneed, encoding": encoding,
        "allyouneed, everything": everything,
    }


def timed(files: CorpusFiles, folder: Path, num_pairs: int) -> tuple[float, float]:
    """Seconds to encode the training part, and in all."""
    seconds: dict[str, float] = {}

    @contextmanager
    def watch(phase: str, total: int | None) -> Iterator[Callable[[int], None]]:
        began = time.perf_counter()
        yield lambda count: None
        seconds[phase] = time.perf_counter() - began

    began = time.perf_counter()
    data = prepare(folder, files, config=DataConfig(vocab_size=VOCAB_SIZE), watch=watch)
    assert data.train.num_pairs > 0.99 * num_pairs
    return seconds["train"], time.perf_counter() - began


LOOP = """
import sys
import numpy as np, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
part, parts = int(sys.argv[2]), int(sys.argv[3])
for path in sys.argv[4:]:
    with open(path, encoding="utf-8") as lines, open(f"{path}.{part}", "wb") as ids:
        for number, line in enumerate(lines):
            if number % parts == part:
                ids.write(np.array(tokenizer.encode(line.rstrip("\\n")).ids, np.uint16).tobytes())
"""


def by_a_loop(files: list[Path], tokenizer: Path) -> float:
    """Seconds of the usual loop in Python over the same tokeniser, a process for each core."""
    cores, began = available_cores(), time.perf_counter()
    quiet = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    command: list[str | Path] = [sys.executable, "-c", LOOP, tokenizer]
    running = [
        subprocess.Popen([*command, str(part), str(cores), *files], env=quiet) for part in range(cores)
    ]
    assert [process.wait() for process in running] == [0] * cores
    return time.perf_counter() - began


def by_batches(files: list[Path], encode: Callable[[list[str]], list[list[int]]]) -> float:
    """Seconds of a library that encodes batches of lines on all cores."""
    began = time.perf_counter()
    for path in files:
        with path.open(encoding="utf-8") as lines, path.with_suffix(".ids").open("wb") as ids:
            while batch := [line.rstrip("\n") for line in islice(lines, ENCODED_AT_ONCE)]:
                ids.write(np.array([token for row in encode(batch) for token in row], np.uint16).tobytes())
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and keep it in `results/`."""
    num_pairs, only = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2:]
    if "ALLYOUNEED_DATA" not in os.environ:
        print("NOT RUN: needs ALLYOUNEED_DATA, the folder of the corpora")
        return
    data = Path(os.environ["ALLYOUNEED_DATA"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = [folder / "text.en", folder / "text.de"]
        lengths = np.random.default_rng(SEED).lognormal(np.log(MEAN_WORDS) - 0.2, 0.63, num_pairs)
        lengths = lengths.clip(1, 100).astype(np.int64)
        for path in files:
            write_text(path, num_pairs, *words_of(data, path.suffix[1:]), lengths, SEED)
        size = sum(path.stat().st_size for path in files)
        print(f"{num_pairs:,} pairs, {size / 1e6:,.0f} MB", flush=True)

        seconds = of_this_program(files, folder, num_pairs)
        if not only:
            tokenizer = folder / "data" / "source_tokenizer.json"
            library = tokenizers.Tokenizer.from_file(str(tokenizer))
            seconds["tokenizers, a loop"] = by_a_loop(files, tokenizer)
            seconds["tokenizers, batches"] = by_batches(
                files, lambda texts: [found.ids for found in library.encode_batch_fast(texts)]
            )
        with (folder / "sample").open("wb") as sample:
            for path in files:
                sample.writelines(line.encode() + b"\n" for line in islice(read_lines(path), SAMPLE_LINES))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "sample"),
            model_prefix=str(folder / "spm"),
            vocab_size=VOCAB_SIZE,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
        seconds["sentencepiece, batches"] = by_batches(
            files, lambda texts: processor.encode(texts, num_threads=available_cores())
        )
    for name, each in seconds.items():
        print(f"{name:24} {num_pairs / each:10,.0f} pairs/s")
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(torch.device("cpu")),
        "pairs": num_pairs,
        "corpus_bytes": size,
        "seconds": seconds,
        "pairs_per_second": {name: num_pairs / each for name, each in seconds.items()},
    }
    (RESULTS / f"{'_'.join(['preparation', *only])}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
