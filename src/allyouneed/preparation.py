"""From sentence pairs, or trees, to prepared data (paper 5.1, 6.3): cleaned, cut into units, stored as ids.

DATA holds `train/` and perhaps `valid/` (token ids, see `data.store`), `text/` (the cleaned lines), both
tokenisers, `report.json` (what was dropped and why) and a manifest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from allyouneed.config import WITHOUT_RECORD, DataConfig
from allyouneed.data.corpus import (
    CleaningLimits,
    CleaningReport,
    DropReason,
    Pair,
    clean_pairs,
    read_parallel,
    read_tab_separated,
)
from allyouneed.data.linearisation import WORD, symbols_per_word
from allyouneed.data.lines import encode_line, read_lines
from allyouneed.data.store import PairStore, PairWriter
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.tree_vocabulary import TreeVocabulary
from allyouneed.data.treebank import AUGMENTED, UNTAGGED, Files, TreeFiles, paths
from allyouneed.data.vocabulary_file import read_json
from allyouneed.data.vocabulary_sample import Sample, Texts, sampled_lines
from allyouneed.data.word_features import WordFeatures
from allyouneed.errors import DataError, ModelError, UsageError
from allyouneed.publish import MANIFEST, publish_directory, read_manifest, require_free, sha256_of

SOURCE_TOKENIZER = "source_tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"
KIND = "data"
_COUNTED = {"translation": "pairs", "parsing": "trees"}
_REPORT = "report.json"
_READ = (_REPORT, "*/header.json", "*/*.bin", "text/*.source", "text/*.target")
"""Files that are read besides the tokenisers, as far as they are there."""
_OPTIONS = {"translation": "--source and --target, or --pairs", "parsing": "--trees"}
_SHORTEST_FOR_RATIO_TOKENS = 20  # below it a ratio says little
_ENCODED_AT_ONCE = 4_096
_ENCODED_CHARACTERS = 1 << 20  # at once, of both sides; each takes about 100 bytes of memory


@dataclass(frozen=True)
class CorpusFiles:
    """Where sentence pairs come from: parallel files, tab-separated ones, or both."""

    sources: Files = ()
    """Text in the source language, one sentence a line."""
    targets: Files = ()
    """Its translation, line by line: as many files, in the same order."""
    pairs: Files = ()
    """Lines of source TAB target."""

    limits: ClassVar = CleaningLimits()
    """What pairs may be before they are tokenised."""

    def __bool__(self) -> bool:
        return bool(self.sources or self.targets or self.pairs)

    def read(self, report: CleaningReport) -> Iterator[Pair]:
        """All pairs, the parallel files' first; that all files are there is checked at the call."""
        parallel = read_parallel(paths(self.sources), paths(self.targets), report)
        return chain(parallel, read_tab_separated(paths(self.pairs), report))


NO_FILES = CorpusFiles()
PAPER_DATA = DataConfig()


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
        path = self.directory / _REPORT
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
        path, store = _text_path(self.directory, part, side), self.train if part == "train" else self.valid
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


def prepare(
    directory: Path | str,
    train: CorpusFiles | TreeFiles,
    valid: CorpusFiles | TreeFiles = NO_FILES,
    config: DataConfig = PAPER_DATA,
    say: Callable[[str], None] = lambda line: None,
) -> PreparedData:
    """Clean, learn sub-words from the training text, encode, and publish as `directory`.

    Args:
        directory: Must not exist, or be empty.
        train: What to train on: trees, where `config.task` is parsing.
        valid: What to validate on; may be empty.
        config: Tokeniser and limits.
        say: Is told what was sampled, read and dropped, line by line, and what a killed process had left
            unfinished.

    Raises:
        UsageError: `directory` is not free, no file is given, the vocabulary size is impossible, or a setting
            is not for the task.
        DataError: A file is unusable, or no pair is left.
        LockedError: Another process is making `directory`.
    """
    directory = Path(directory)
    require_free(directory)
    if not train:
        raise UsageError(f"no training text: give {_OPTIONS[config.task]}")
    _require_place_for_words(config)
    for files in (train, valid):
        files.read(CleaningReport())  # a file that is missing is told before anything long begins
    facts: dict[str, Any] = {}
    with publish_directory(directory, KIND, facts, say=say) as aside:
        tokenizers = _learn_tokenizers(train, config, say)
        tokenizers.save(aside)
        (aside / "text").mkdir()
        reports = {"train": _encode(aside, "train", train, tokenizers, config)}
        if valid:
            reports["valid"] = _encode(aside, "valid", valid, tokenizers, config)
        counted = _COUNTED[config.task]
        for part, report in reports.items():
            for line in report.lines(counted):
                say(f"{part}: {line}")
            if not report.num_kept:
                raise DataError(f"{part}: 0 of {report.num_read} {counted} are left; see the reasons above")
        contents = {part: report.to_dict() for part, report in reports.items()}
        (aside / _REPORT).write_bytes(json.dumps(contents, indent=1).encode())
        facts |= _facts(aside, config, tokenizers)
    return PreparedData(directory)


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


def _require_place_for_words(config: DataConfig) -> None:
    if config.tokenizer != "words":
        return
    if config.task != "parsing":
        raise UsageError("--tokenizer words: is for parsing; a translation is written in bpe or wordpiece")
    if config.tags == "endings":
        raise UsageError(
            "--tokenizer words: does not spell what search has to know for --tags endings; "
            "leave either out: with --brackets joined the place of a word is known without endings"
        )


class _Tokenizers(NamedTuple):
    source: SourceTokenizer
    target: Tokenizer | TreeVocabulary

    def save(self, directory: Path) -> None:
        self.source.save(directory / SOURCE_TOKENIZER)
        self.target.save(directory / TARGET_TOKENIZER)


def _learn_tokenizers(
    files: CorpusFiles | TreeFiles, config: DataConfig, say: Callable[[str], None]
) -> _Tokenizers:
    def learn(*sides: str) -> Tokenizer:
        assert config.tokenizer != "words"
        lines = () if config.tokenizer == "byte" else sampled(*sides)
        return Tokenizer.train(lines, config.tokenizer, config.vocab_size)

    report = CleaningReport()

    def read(*sides: str) -> Iterator[Texts]:
        pairs = clean_pairs(files.read(report), files.limits, CleaningReport())
        return ([getattr(pair, side) for side in sides] for pair in pairs)

    def sampled(*sides: str) -> Iterator[str]:
        return sampled_lines(partial(read, *sides), config.vocab_sample_bytes, tell)

    def tell(sample: Sample) -> None:
        say(
            f"train: vocabulary learned from a sample of {sample.num_drawn:,} of {sample.num_texts:,} "
            f"{_COUNTED[config.task]}, which has {config.vocab_sample_bytes:,} bytes of distinct words; "
            "--vocab-sample-bytes changes that, 0 takes all"
        )

    if isinstance(files, TreeFiles):
        files = files.distinct()
        symbols = TreeVocabulary.learn(chain.from_iterable(read("target")), config.tags, config.brackets)
        if config.tags == "predicted" and report.notes[UNTAGGED]:
            raise DataError(
                f"{report.notes[UNTAGGED]:,} silver trees have {WORD} for every part of speech, which would "
                "be learned; make them with a parser that predicts tags, or take other --tags"
            )
        if config.tokenizer != "words":
            return _Tokenizers(learn("source"), symbols)
        ids_per_word = symbols_per_word(config.tags)
        return _Tokenizers(WordFeatures.learn(sampled("source"), config.vocab_size, ids_per_word), symbols)
    if config.joint_vocabulary:
        joint = learn("source", "target")
        return _Tokenizers(joint, joint)
    return _Tokenizers(learn("source"), learn("target"))


def _encode(
    directory: Path, part: str, files: CorpusFiles | TreeFiles, tokenizers: _Tokenizers, config: DataConfig
) -> CleaningReport:
    """Write a part's ids, and the text that they came from line by line."""
    report = CleaningReport()
    vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    with (
        PairWriter(directory / part, vocabulary_size=vocab_size) as writer,
        _text_path(directory, part, "source").open("wb") as sources,
        _text_path(directory, part, "target").open("wb") as targets,
    ):
        for pair, line_number, source, target in _encoded_pairs(files, tokenizers, report):
            if reason := _reason_to_drop(len(source), len(target), config):
                report.drop(reason, pair)
                continue
            writer.add(source, target, line_number)
            sources.write(encode_line(pair.source))
            targets.write(encode_line(pair.target))
    return report


def _encoded_pairs(
    files: CorpusFiles | TreeFiles, tokenizers: _Tokenizers, report: CleaningReport
) -> Iterator[tuple[Pair, int, list[int], list[int]]]:
    """Pairs, their line counted over all files, and their ids; many are encoded at once, on all cores."""
    pairs = clean_pairs(files.read(report), files.limits, report)
    numbered = ((pair, report.num_read) for pair in pairs)
    while chunk := list(_encoded_together(numbered)):
        sources = tokenizers.source.encode_batch([pair.source for pair, _ in chunk])
        targets = tokenizers.target.encode_batch([pair.target for pair, _ in chunk])
        for (pair, line_number), source, target in zip(chunk, sources, targets, strict=True):
            yield pair, line_number, source, target


def _encoded_together(numbered: Iterator[tuple[Pair, int]]) -> Iterator[tuple[Pair, int]]:
    """The next pairs, fewer where they are long."""
    num_characters = 0
    for pair, line_number in islice(numbered, _ENCODED_AT_ONCE):
        yield pair, line_number
        num_characters += len(pair.source) + len(pair.target)
        if num_characters > _ENCODED_CHARACTERS:
            return


def _reason_to_drop(source_tokens: int, target_tokens: int, config: DataConfig) -> DropReason | None:
    shorter, longer = sorted((source_tokens, target_tokens))
    if longer > config.max_tokens:
        return DropReason.TOO_MANY_TOKENS
    if config.task == "parsing":
        return None  # symbols are no translation of sub-words
    if longer > _SHORTEST_FOR_RATIO_TOKENS and longer > config.max_length_ratio * shorter:
        return DropReason.TOKEN_RATIO
    return None


def _facts(directory: Path, config: DataConfig, tokenizers: _Tokenizers) -> dict[str, Any]:
    """What a run checks and records of its data."""
    digest = hashlib.sha256()
    for path in sorted((directory / "text").iterdir()):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return {
        "config": config.model_dump(),
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
        "facts": {
            "corpus": digest.hexdigest(),
            "source_tokenizer": sha256_of(directory / SOURCE_TOKENIZER),
            "target_tokenizer": sha256_of(directory / TARGET_TOKENIZER),
        },
    }


def _text_path(directory: Path, part: str, side: str) -> Path:
    return directory / "text" / f"{part}.{side}"
