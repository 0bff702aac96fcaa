"""What tests of training share: a corpus of sequences to copy, and a model of a few thousand parameters."""

import random
from pathlib import Path

import pytest

from allyouneed.config import RunConfig
from allyouneed.data.store import PairStore, write_store
from allyouneed.symbols import UNKNOWN
from allyouneed.training.trainer import Corpus

VOCAB_SIZE = 16


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """200 sequences of 1 to 9 ids, each with itself, and 20 others to validate on."""
    folder, draw = tmp_path_factory.mktemp("corpus"), random.Random(1)
    for part, num_pairs in (("train", 200), ("valid", 20)):
        ids = [
            [draw.randrange(UNKNOWN + 1, VOCAB_SIZE) for _ in range(draw.randint(1, 9))]
            for _ in range(num_pairs)
        ]
        write_store(
            folder / part,
            [(sequence, sequence, line) for line, sequence in enumerate(ids, start=1)],
            vocabulary_size=VOCAB_SIZE,
        )
    tokenizers = {"source_tokenizer.json": b"{}", "target_tokenizer.json": b"[]"}
    return Corpus(PairStore(folder / "train"), PairStore(folder / "valid"), tokenizers, {"corpus": "copy"})


@pytest.fixture(scope="session")
def config() -> RunConfig:
    """Small, with dropout, four micro-batches an update and five updates an epoch."""
    return RunConfig().replace(
        model={
            "source_vocab_size": VOCAB_SIZE,
            "target_vocab_size": VOCAB_SIZE,
            "d_model": 16,
            "d_ff": 32,
            "num_layers": 1,
            "num_heads": 2,
            "dropout": 0.2,
        },
        training={
            "batch_tokens": 256,
            "micro_batch_tokens": 64,
            "num_steps": 12,
            "warmup_steps": 20,
            "learning_rate_factor": 2.0,
            "checkpoint_every_steps": 4,
            "precision": "float32",
        },
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An empty run directory."""
    path = tmp_path / "run"
    path.mkdir()
    return path
