"""The definition of a task, from its files and units of text to the scores of its outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.store import Sentences
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.evaluation import Score
from allyouneed.tasks.training_text import TrainingText

if TYPE_CHECKING:
    from allyouneed.training.validation import Validation


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


class Choice(tuple[tuple[str, ...], ...]):
    """Alternative sets of options, each complete by itself, such as `(("source", "target"), ("pairs",))`."""

    def __str__(self) -> str:
        return ", or ".join(map(" and ".join, self))

    @property
    def names(self) -> list[str]:
        """All options."""
        return [name for alternative in self for name in alternative]


@dataclass(frozen=True)
class Task:
    """A task. Prepare, train, average, load and evaluate use only this interface."""

    name: str
    """Name in settings and for `--task`."""
    command: str
    """The command that uses its models."""
    default_preset: str
    """The preset of a run that names none."""
    score: str
    """Name, in the log, of the validation score that selects the best checkpoint: higher is better."""
    score_label: str
    """The score's name in plots."""
    examples: str
    """Word for training examples in messages, such as "pairs"."""
    target_units: str
    """Word for target units in messages, such as "sub-words"."""
    reads_pairs: bool
    """Whether its files hold sentence pairs; options of `prepare` about these do not suit other tasks."""
    training_files: Choice
    """Options of `prepare` that name training files."""
    validation_files: Choice
    """Options of `prepare` that name validation files."""
    data_settings: frozenset[str]
    """Settings of `DataConfig` that only this task uses."""
    sides_are_alike: bool
    """Whether source and target have similar numbers of tokens, so that very uneven pairs are dropped."""
    require_settings: Callable[[DataConfig], None]
    """Raises UsageError for settings that do not suit the task."""
    ids_per_word: Callable[[DataConfig], int | None]
    """Number of ids per word on both sides; None if it varies."""
    learn_units: Callable[[TrainingText], Units]
    """Learns the units from the training text."""
    load_units: Callable[[Path, DataConfig, int, int], Units]
    """Loads the units from a directory of prepared data or a model, given the data settings and the source
    and target vocabulary sizes. Raises ModelError if a file is damaged or of another size."""
    build: Callable[..., Any]
    """Makes the object that users work with, such as a `Translator`, given an ensemble's models and the first
    one's directory: `build(models, config, units, directory=...)`. Further options are those of `load`."""
    validation: Callable[[Sequence[str], Sequence[str], Units, RunConfig], "Validation"]
    """Makes a function that scores a model on held-out sources and targets, as stored by `prepare`."""
    evaluate: Callable[..., list[Score]] | None
    """Scores the result of `build` on sources and lists of references; further options depend on the task.
    None if only trees can be references."""
