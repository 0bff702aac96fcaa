"""The units of text that source and target ids stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from allyouneed.data.store import Sentences
from allyouneed.data.tokenizer import Tokenizer

SOURCE_TOKENIZER = "source_tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"


class Vocabulary(Protocol):
    """The units of one side: sub-words, words, or tree symbols. Equal vocabularies give equal ids."""

    @property
    def vocab_size(self) -> int:
        """Number of entries, including control symbols."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without control symbols."""

    def save(self, path: Path) -> None:
        """Write the vocabulary to a file that its class can load."""


def encode_corpus(vocabulary: Vocabulary, texts: Sequence[str]) -> Sentences:
    """The ids of each text, without control symbols, as fast as the vocabulary can."""
    if isinstance(vocabulary, Tokenizer):
        return vocabulary.encode_corpus(texts)
    return Sentences.of(vocabulary.encode_batch(texts))


class Units(NamedTuple):
    """The units of both sides."""

    source: Vocabulary
    target: Vocabulary

    def save(self, directory: Path) -> None:
        """Write both sides to the files that prepared data and checkpoints contain."""
        self.source.save(directory / SOURCE_TOKENIZER)
        self.target.save(directory / TARGET_TOKENIZER)
