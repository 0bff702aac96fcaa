"""`train_in_little_memory.py RUN LONGEST [MEBIBYTES]`: trains in so much memory besides torch's own."""

import random
import resource
import sys
from pathlib import Path

import torch

from allyouneed.config.run import RunConfig
from allyouneed.data.store import PairStore, PairWriter, Sentences
from allyouneed.errors import UserError
from allyouneed.hardware.machine import measured_peak
from allyouneed.storage.run_directory import RunDirectory
from allyouneed.symbols import UNKNOWN
from allyouneed.training.trainer import Corpus, Trainer

SHORTEST = 20
NUM_PAIRS = 64
VOCAB_SIZE = 16


def address_space() -> int:
    """Bytes that this process has mapped."""
    pages = Path("/proc/self/statm").read_bytes().split()[0]
    return int(pages) * resource.getpagesize()


def build_trainer(run: Path, longest: int) -> Trainer:
    """Two lengths of sequences, a micro-batch of each an update."""
    draw = random.Random(1)
    pairs = [
        ([draw.randrange(UNKNOWN + 1, VOCAB_SIZE) for _ in range(length)],) * 2
        for length in (SHORTEST, longest)
        for _ in range(NUM_PAIRS * longest // length)
    ]
    sources, targets = zip(*pairs, strict=True)
    with PairWriter(run / "data", vocabulary_size=VOCAB_SIZE) as writer:
        writer.add(Sentences.of(sources), Sentences.of(targets), range(1, len(pairs) + 1))
    config = RunConfig().replace(
        model={
            "source_vocab_size": VOCAB_SIZE,
            "target_vocab_size": VOCAB_SIZE,
            "d_model": 64,
            "d_ff": 1024,
            "num_layers": 1,
            "num_heads": 2,
            "dropout": 0.0,
        },
        training={
            "batch_tokens": 2 * NUM_PAIRS * (longest + 1),
            "micro_batch_tokens": NUM_PAIRS * (longest + 1),
            "num_steps": 3,
            "validate_every_steps": 1,
            "precision": "float32",
        },
    )
    corpus = Corpus(PairStore(run / "data"), None, {}, {})
    return Trainer(config, corpus, RunDirectory(run), torch.device("cpu"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    trainer = build_trainer(Path(sys.argv[1]), int(sys.argv[2]))
    measured_peak(torch.device("cpu"), "float32")  # what is done once is not counted
    if len(sys.argv) > 3:
        limit = address_space() + int(sys.argv[3]) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        trainer.train()
    except UserError as error:
        print(*error.lines(), sep="\n", file=sys.stderr)
        sys.exit(error.exit_code)
