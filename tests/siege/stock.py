"""Tiny valid files of every kind, from which the cases take what they need."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from allyouneed.config.run import RunConfig

TINY = RunConfig().replace(
    model={"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1},
    training={
        "batch_tokens": 160,
        "micro_batch_tokens": 80,
        "num_steps": 4,
        "warmup_steps": 1,
        "checkpoint_every_steps": 2,
        "validate_every_steps": 4,
        "average_last": 2,
        "precision": "float32",
    },
    search={"beam_size": 2, "max_extra_tokens": 5},
)
"""As little as shows everything: two checkpoints, two states, a validation."""
NUM_PAIRS, NUM_TREES = 60, 40


def build_stock(folder: Path, toy_text: Path, toy_treebank: Path, allyouneed: Callable[..., None]) -> None:
    """Fill the folder; `allyouneed` runs a command in it.

    `text.en` and `text.toy` are parallel, as are the lines of `pairs.tsv` and `pairs.tsv.gz`; `trees.mrg` is
    a treebank, `requests.jsonl` what `translate --jsonl` reads; `data` and `tree-data` are prepared, `run`,
    `model`, `parser` and `shortlist` made of them; `other` is a model of another vocabulary.
    """
    for name in ("en", "toy"):
        head(toy_text / f"train.{name}", folder / f"text.{name}", NUM_PAIRS)
    head(toy_treebank / "train.mrg", folder / "trees.mrg", NUM_TREES)
    sources, targets = ((folder / f"text.{name}").read_bytes().split(b"\n")[:-1] for name in ("en", "toy"))
    pairs = b"".join(b"%s\t%s\n" % pair for pair in zip(sources, targets, strict=True))
    (folder / "pairs.tsv").write_bytes(pairs)
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress(pairs, mtime=0))
    requests = ({"id": number, "text": text.decode()} for number, text in enumerate(sources[:5]))
    (folder / "requests.jsonl").write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in requests))
    (folder / "config.toml").write_bytes(TINY.to_toml().encode())

    texts = ("--source", "text.en", "--target", "text.toy")
    held_out = ("--valid-source", "text.en", "--valid-target", "text.toy")
    for data, vocab_size, model in (("data", "290", "model"), ("other-data", "280", "other")):
        allyouneed("prepare", data, *texts, *held_out, "--vocab-size", vocab_size)
        run = "run" if model == "model" else f"{model}-run"
        allyouneed("train", run, "--data", data, "--config", "config.toml")
        allyouneed("average", run, "--out", model)
    allyouneed("shortlist", "data", "--out", "shortlist")
    trees = ("--trees", "trees.mrg", "--valid-trees", "trees.mrg", "--vocab-size", "311")
    allyouneed("prepare", "tree-data", "--task", "parsing", *trees)
    allyouneed("train", "parser-run", "--data", "tree-data", "--config", "config.toml")
    allyouneed("average", "parser-run", "--out", "parser")


def head(whole: Path, part: Path, num_lines: int) -> None:
    """Copy the first lines of a file."""
    part.write_bytes(b"".join(line + b"\n" for line in whole.read_bytes().split(b"\n")[:num_lines]))


def take(stock: Path, names: set[str], folder: Path) -> None:
    """Copy what of these the stock has into the folder."""
    for path in stock.iterdir():
        if path.name in names:
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / path.name)


def give_away(folder: Path, owner: int) -> None:
    """Let all of the folder belong to another user, where this process may do so."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, owner, follow_symlinks=False)
