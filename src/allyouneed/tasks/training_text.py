"""The cleaned training text, from which a task learns its units (paper 5.1)."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, Reader, clean_pairs
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vocabulary_sample import Sample, Texts, sampled_lines
from allyouneed.errors import DataError

_TOLD_EVERY = 4_096


class TrainingText:
    """The training text, which can be read any number of times.

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
        """One sub-word vocabulary for these sides.

        Raises:
            UsageError: The text has fewer sub-words than the requested vocabulary size.
            DataError: No example is left, or a file is unusable.
        """
        config = self.config
        assert config.tokenizer != "words"
        self._is_sampled = False
        lines = () if config.tokenizer == "byte" else self.sampled_lines(*sides)
        or_else = ", or a larger vocab_sample_bytes" if self._is_sampled else ""
        if config.tokenizer == "sentencepiece":
            from allyouneed.data.sentencepiece_tokenizer import SentencePieceTokenizer

            return SentencePieceTokenizer.learn(lines, config.vocab_size, or_else)
        return Tokenizer.train(lines, config.tokenizer, config.vocab_size, or_else)

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
    """Say what was read and dropped of each part.

    Raises:
        DataError: Nothing is left of a part.
    """
    for part, report in reports.items():
        for line in report.lines(examples):
            say(f"{part}: {line}")
        if not report.num_kept:
            raise DataError(f"{part}: 0 of {report.num_read} {examples} are left; see the reasons above")
