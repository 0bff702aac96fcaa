"""What tests of training share: a corpus of sequences to copy, and a model of a few thousand parameters."""

import random

import pytest
from tests.stores import write_store
from tests.tiny import VOCAB_SIZE

from allyouneed.data.store import PairStore
from allyouneed.symbols import UNKNOWN
from allyouneed.training.trainer import Corpus


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
