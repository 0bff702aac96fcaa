"""Models of ours in Marian's form: random weights, and one that has learned to reverse sentences."""

from pathlib import Path
from typing import Any

import torch
from tests.interop.foreign_models import SENTENCES, backwards
from torch import nn

from allyouneed import RunConfig
from allyouneed.cli.program import main
from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer
from allyouneed.model.embedding import Embeddings
from allyouneed.model.transformer import Transformer
from allyouneed.storage.checkpoint import save_checkpoint
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

FORM = {"positions": "concatenated", "decoder_start": "zeros"}
ENTRIES = 296
"""Entries of the vocabulary: bytes, control symbols, and pieces of `SENTENCES`; 8 divides it."""


def random_model(path: Path, *, languages: tuple[str, str] = ("en", "de"), **settings: Any) -> Path:
    """A model of random weights with one vocabulary, or two if `tied_embeddings` is not "all"."""
    sides = [SENTENCES, SENTENCES if settings.get("tied_embeddings", "all") == "all" else SENTENCES[:200]]
    path.mkdir()
    contents = {}
    for name, lines in zip((SOURCE_TOKENIZER, TARGET_TOKENIZER), sides, strict=True):
        SentencePieceTokenizer.learn(lines, ENTRIES).save(path / name)
        contents[name] = (path / name).read_bytes()
    sizes = {"d_model": 64, "d_ff": 128, "num_heads": 4, "num_layers": 2}
    vocabularies = {"source_vocab_size": ENTRIES, "target_vocab_size": ENTRIES}
    config = RunConfig().replace(
        model={**sizes, **vocabularies, **FORM, **settings},
        data={
            **{"tokenizer": "sentencepiece", "joint_vocabulary": sides[0] == sides[1]},
            **{"source_language": languages[0], "target_language": languages[1]},
        },
    )
    torch.manual_seed(1)
    model = Transformer(config.model)
    with torch.no_grad():
        if config.model.tied_embeddings == "none":
            model.embeddings.matrix("output").mul_(8)  # else the best tokens are as good as equal
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.uniform_(0.5, 1.5)
            if isinstance(module, nn.LayerNorm | nn.Linear | Embeddings) and module.bias is not None:
                module.bias.uniform_(-0.5, 0.5)
    save_checkpoint(path / "model", config, dict(model.state_dict()), contents, {})
    return path / "model"


def trained_run(folder: Path) -> Path:
    """A run that has learned to reverse sentences from data in `folder`/data, by `train --for marian`."""
    for side, texts in (("source", SENTENCES), ("target", map(backwards, SENTENCES))):
        (folder / side).write_bytes("".join(f"{text}\n" for text in texts).encode())
    sides = [f"--{kind}{side}={folder / side}" for kind in ("", "valid-") for side in ("source", "target")]
    options = "--tokenizer", "sentencepiece", "--vocab-size", str(ENTRIES), "--keep-repeats"
    assert main(["prepare", str(folder / "data"), *sides, *options]) == 0
    sizes = ("d_model=64", "d_ff=128", "num_heads=4", "num_layers=2", "dropout=0")
    steps = ("num_steps=400", "warmup_steps=100", "batch_tokens=800", "micro_batch_tokens=800")
    settings = [*(f"model.{each}" for each in sizes), *(f"training.{each}" for each in steps)]
    given = ["--data", str(folder / "data"), "--for", "marian", "--set", *settings, "--device", "cpu"]
    assert main(["train", str(folder / "run"), *given]) == 0
    return folder / "run"
