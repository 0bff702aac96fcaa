"""Everything that docs/wmt14.md does, on a generated corpus with the files and numbers of lines of WMT 2014.

    ALLYOUNEED_DATA=/data python benchmarks/wmt14_dry_run.py OUT

Lines have the lengths of news and the frequencies of words of Multi30k and Tatoeba, and mean nothing, so the
scores are near 0. Ten updates of base at the paper's batch are made, two checkpoints averaged, and 100 lines
translated and scored in every convention. The log of all commands is `OUT/log`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from allyouneed.data.public_corpora import PUBLIC_CORPORA
from preparation import words_of, write_text

CORPUS, MEAN_WORDS, NUM_TEST = "wmt14-en-de", 24, 100
UPDATES = "training.num_steps=10", "training.checkpoint_every_steps=5", "training.validate_every_steps=10"


def write_corpus(folder: Path, data: Path) -> None:
    """Files of the published names and numbers of lines."""
    corpus = PUBLIC_CORPORA[CORPUS]
    for seed, part in enumerate((*corpus.train, corpus.valid)):
        lengths = np.random.default_rng(seed).lognormal(np.log(MEAN_WORDS) - 0.2, 0.63, part.num_lines)
        lengths = lengths.clip(1, 100).astype(np.int64)
        for language in (corpus.source_language, corpus.target_language):
            path = folder / f"{part.stem}.{language}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, part.num_lines, *words_of(data, language), lengths, seed)


def main() -> None:
    """Write the corpus, and run the commands."""
    out, data = Path(sys.argv[1]), Path(os.environ["ALLYOUNEED_DATA"])
    out.mkdir()
    began = time.perf_counter()
    write_corpus(out / "wmt14", data)
    for language, name in (("en", "source"), ("de", "reference")):
        lines = (out / "wmt14" / "dev" / f"newstest2013.{language}").read_bytes().split(b"\n")[:NUM_TEST]
        (out / name).write_bytes(b"\n".join(lines) + b"\n")
    with (out / "log").open("w") as log:

        def run(*arguments: object, source: bytes = b"") -> None:
            command = [str(argument) for argument in arguments]
            print(
                f"{time.perf_counter() - began:7.0f} s: allyouneed {' '.join(command)}", file=log, flush=True
            )
            subprocess.run(
                [sys.executable, "-m", "allyouneed", *command],
                input=source,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=True,
            )

        run("prepare", out / "data", "--corpus", CORPUS, "--from", out / "wmt14")
        run("plan", "--preset", "base")
        run("train", out / "base", "--data", out / "data", "--preset", "base", "--set", *UPDATES)
        run("average", out / "base", "--last", "2", "--out", out / "model")
        first = (out / "source").read_bytes().split(b"\n")[0]
        run("translate", out / "model", "--max-length", "20", source=first + b"\n")
        run("evaluate", out / "model", "--source", out / "source", "--reference", out / "reference")
        print(f"{time.perf_counter() - began:7.0f} s: done", file=log)


if __name__ == "__main__":
    main()
