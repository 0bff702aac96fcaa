"""Prepared data as it is read: a DATA directory, every file of it checked, and what is in it."""

from functools import cached_property
from pathlib import Path

from allyouneed.config.run import WITHOUT_RECORD, DataConfig
from allyouneed.data.lines import read_lines
from allyouneed.data.store import PairStore
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vocabulary_file import read_json
from allyouneed.errors import ModelError, UsageError
from allyouneed.storage.publish import MANIFEST, read_manifest
from allyouneed.tasks.parsing.linearisation import symbols_per_word
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import AUGMENTED
from allyouneed.tasks.parsing.word_features import WordFeatures

SOURCE_TOKENIZER = "source_tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"
KIND = "data"
REPORT = "report.json"
_READ = (
    *(REPORT, "text/*.source", "text/*.target"),
    *(f"{part}/{form}" for part in ("train", "valid") for form in ("header.json", "*.bin")),
)
"""Files that are read besides the tokenisers, as far as they are there."""


class PreparedData:
    """A published DATA directory, every file of it checked.

    Raises:
        ModelError: It is damaged, of another version, or no prepared data.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = directory = Path(directory)
        read = [path.relative_to(directory).as_posix() for form in _READ for path in directory.glob(form)]
        manifest = read_manifest(directory, KIND, [SOURCE_TOKENIZER, TARGET_TOKENIZER, *read])
        try:
            self.config = DataConfig(**WITHOUT_RECORD).replace(**manifest["config"])
            self.source_vocab_size, self.target_vocab_size = map(
                _positive, (manifest["source_vocab_size"], manifest["target_vocab_size"])
            )
            self.facts: dict[str, str] = dict(manifest["facts"])
            _ = self.facts["source_tokenizer"], self.facts["target_tokenizer"]  # what shortlists are made for
        except UsageError as error:
            raise ModelError(
                f"{directory}: has settings that this version does not know ({error.messages[0]}); "
                "prepare the data again"
            ) from None
        except (KeyError, TypeError, ValueError):
            raise ModelError(f"{directory / MANIFEST}: is damaged; prepare the data again") from None
        load_source_tokenizer(directory, self.config, self.source_vocab_size)
        target = TreeVocabulary if self.config.task == "parsing" else Tokenizer
        target.load(directory / TARGET_TOKENIZER, self.target_vocab_size)
        self.train = self._store("train")
        self.valid = self._store("valid") if (directory / "valid").is_dir() else None

    @property
    def is_augmented(self) -> bool:
        """Whether the training part holds trees that were repeated, made of others, or made by a parser."""
        path = self.directory / REPORT
        report = read_json(path, "report")
        try:
            return bool(AUGMENTED & set(report["train"]["notes"]))
        except (KeyError, TypeError):
            raise ModelError(f"{path}: is damaged; prepare the data again") from None

    @property
    def ids_per_word(self) -> int | None:
        """The ids that every word has on either side, if that is one number: words with joined brackets."""
        is_fixed = self.config.tokenizer == "words" and self.config.brackets == "joined"
        return symbols_per_word(self.config.tags) if is_fixed else None

    @cached_property
    def tokenizers(self) -> dict[str, bytes]:
        """The two tokenisers' files, as every checkpoint carries them."""
        return {name: (self.directory / name).read_bytes() for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}

    def lines(self, part: str, side: str) -> list[str]:
        """The cleaned text of a side ("source", "target") of a part ("train", "valid"), pair by pair."""
        path, store = text_path(self.directory, part, side), self.train if part == "train" else self.valid
        lines = list(read_lines(path))
        if store is None or len(lines) != store.num_pairs:
            raise ModelError(
                f"{path}: has {len(lines):,} lines, not one for each pair; prepare the data again"
            )
        return lines

    def _store(self, part: str) -> PairStore:
        store = PairStore(self.directory / part)
        if not store.num_pairs:
            raise ModelError(f"{self.directory / part}: holds no pairs; prepare the data again")
        store.require_ids_below(self.source_vocab_size, self.target_vocab_size)
        return store


def _positive(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("a number of entries is wanted")
    return value


SourceTokenizer = Tokenizer | WordFeatures
"""What text is cut into: sub-words, or for a parser perhaps words."""


def load_source_tokenizer(
    directory: Path, config: DataConfig, vocab_size: int | None = None
) -> SourceTokenizer:
    """The source tokeniser of prepared data, or of a model that was trained on them.

    Raises:
        ModelError: It is missing, damaged, or of another size than `vocab_size`.
    """
    kind = WordFeatures if config.tokenizer == "words" else Tokenizer
    return kind.load(directory / SOURCE_TOKENIZER, vocab_size)


def text_path(directory: Path, part: str, side: str) -> Path:
    """Where the cleaned text of a side of a part is kept."""
    return directory / "text" / f"{part}.{side}"
