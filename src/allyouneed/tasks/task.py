"""The definition of a task, from its files and units of text to the scores of its outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from allyouneed.config.model import ModelConfig
from allyouneed.config.run import DataConfig, RunConfig
from allyouneed.data.corpus import CleaningReport, Reader, clean_pairs
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vocabulary_sample import Sample, Texts, sampled_lines
from allyouneed.errors import DataError
from allyouneed.evaluation.scores import Score

if TYPE_CHECKING:
    from allyouneed.training.meters import Validation

_TOLD_EVERY = 4_096
_VOCABULARIES = {1_000: 504, 5_000: 1_000, 20_000: 2_000, 80_000: 4_000, 320_000: 8_000, 1_280_000: 16_000}
"""Number of examples -> size of a vocabulary that suits fewer of them. Bergamot needs multiples of 8."""
_LARGEST_VOCABULARY = 32_000
SOURCE_TOKENIZER = "source_tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"


class TrainingText:
    """The cleaned training text (paper 5.1), which can be read any number of times.

    Args:
        files: Training files.
        config: Data settings.
        examples: Word for training examples in messages, such as "pairs".
        say: Receives a line if units are learned from a sample, and the report if no text is left.
        advance: Receives numbers of examples that were read.

    Reading raises DataError if no example is left.
    """

    def __init__(
        self,
        files: Reader,
        config: DataConfig,
        examples: str,
        say: Callable[[str], None],
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.config = config
        self.report = CleaningReport()
        """Counts of the last reading."""
        self.num_examples: int | None = None
        """Number of examples in the files, known once all were read, unless they repeat or derive some."""
        self._is_all = files.distinct() == files
        self._files, self._examples, self._say, self._advance = files.distinct(), examples, say, advance

    def lines(self, *sides: str) -> Iterator[str]:
        """All lines of these sides ("source", "target"), pair by pair."""
        return (text for texts in self._texts(*sides) for text in texts)

    def sampled_lines(self, *sides: str) -> Iterator[str]:
        """The lines of a sample limited by `vocab_sample_bytes`, or all lines if they fit."""
        return sampled_lines(partial(self._texts, *sides), self.config.vocab_sample_bytes, self._tell)

    def learn_tokenizer(self, *sides: str) -> Tokenizer:
        """One sub-word vocabulary for these sides, of a size that suits the text if none is set.

        Raises:
            UsageError: The text has fewer sub-words than the requested vocabulary size.
            DataError: No example is left, or a file is unusable.
        """
        config = self.config
        assert config.tokenizer != "words"
        self._is_sampled = False
        lines = () if config.tokenizer == "byte" else self.sampled_lines(*sides)
        or_else: str | None = ", or a larger vocab_sample_bytes" if self._is_sampled else ""
        vocab_size = config.vocab_size
        if not vocab_size and config.tokenizer != "byte":
            vocab_size, or_else = self._fitting_size(), None
        if config.tokenizer == "sentencepiece":
            from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer

            return SentencePieceTokenizer.learn(lines, vocab_size, or_else)
        return Tokenizer.train(lines, config.tokenizer, vocab_size, or_else)

    def _fitting_size(self) -> int:
        """The size of a vocabulary that suits the number of examples."""
        pairs = clean_pairs(self._files.read(report := CleaningReport()), self._files.limits, report)
        number = sum(1 for _ in islice(pairs, max(_VOCABULARIES)))
        return next((size for most, size in _VOCABULARIES.items() if number < most), _LARGEST_VOCABULARY)

    def _texts(self, *sides: str) -> Iterator[Texts]:
        self.report = CleaningReport()
        pairs = clean_pairs(self._files.read(self.report), self._files.limits, self.report)
        number = 0
        for number, pair in enumerate(pairs, start=1):
            if number % _TOLD_EVERY == 0:
                self._advance(_TOLD_EVERY)
            yield [getattr(pair, side) for side in sides]
        if not number:
            tell({"train": self.report}, self._examples, self._say)
        self.num_examples = number if self._is_all else None

    def _tell(self, sample: Sample) -> None:
        self._is_sampled = True
        most = self.config.vocab_sample_bytes
        self._say(
            f"train: vocabulary learned from a sample of {sample.num_drawn:,} of {sample.num_texts:,} "
            f"{self._examples}, which has {most:,} bytes of distinct words; "
            "vocab_sample_bytes changes that, 0 takes all"
        )


def tell(reports: Mapping[str, CleaningReport], examples: str, say: Callable[[str], None]) -> None:
    """Say what was read and dropped of each part; raises DataError if nothing is left of one."""
    for part, report in reports.items():
        for line in report.lines(examples):
            say(f"{part}: {line}")
        if not report.num_kept:
            raise DataError(f"{part}: 0 of {report.num_read} {examples} are left; see the reasons above")


class Vocabulary(Protocol):
    """The units of one side: sub-words, words, or tree symbols. Equal vocabularies give equal ids."""

    @property
    def vocab_size(self) -> int:
        """Number of entries, including control symbols."""

    def encode_batch(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """The ids of each text, without control symbols; or the `Vectors` of each file of frames."""

    def save(self, path: Path) -> None:
        """Write the vocabulary to a file that its class can load."""


class Units(NamedTuple):
    """The units of both sides."""

    source: Vocabulary
    target: Vocabulary

    @property
    def symbols(self) -> Mapping[str, int]:
        """The symbols, and their ids, by which a source says which of several languages is to be written."""
        return self.source.languages if isinstance(self.source, Tokenizer) else {}

    @property
    def source_features(self) -> int:
        """Number of features of a source's vectors; 0 if sources are ids."""
        from allyouneed.data.frame_format import FrameFormat  # which translating does without

        return self.source.vocab_size if isinstance(self.source, FrameFormat) else 0

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
    validation: Callable[[Sequence[Any], Sequence[str], Units, RunConfig], "Validation"]
    """Makes a function that scores a model on held-out sources, texts or `Vectors`, and targets, as stored by
    `prepare`."""
    evaluate: Callable[..., list[Score]] | None
    """Scores the result of `build` on sources and lists of references; further options depend on the task.
    None if only trees can be references."""
    model_settings: Callable[[int, ModelConfig], Mapping[str, Any]] = lambda longest, given: {}
    """Settings that its models have, of the length of the longest source and the settings that are given."""
    pairs_at_once: int | None = None
    """Maximum number of examples that `prepare` encodes together, unless it is the usual one."""
