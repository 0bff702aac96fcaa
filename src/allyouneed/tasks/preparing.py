"""From sentence pairs, or trees, to prepared data (paper 5.1, 6.3): cleaned, cut into units, stored as ids.

DATA holds `train/` and perhaps `valid/` (token ids, see `data.store`), `text/` (the cleaned lines), both
tokenisers, `report.json` (what was dropped and why) and a manifest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import (
    CleaningLimits,
    CleaningReport,
    DropReason,
    Pair,
    clean_pairs,
    read_parallel,
    read_tab_separated,
)
from allyouneed.data.lines import encode_line
from allyouneed.data.store import PairWriter
from allyouneed.data.tokenizer import Tokenizer
from allyouneed.data.vocabulary_sample import Sample, Texts, sampled_lines
from allyouneed.errors import DataError, UsageError
from allyouneed.storage.publish import publish_directory, require_free, sha256_of
from allyouneed.tasks.parsing.linearisation import WORD, symbols_per_word
from allyouneed.tasks.parsing.tree_vocabulary import TreeVocabulary
from allyouneed.tasks.parsing.treebank import UNTAGGED, Files, TreeFiles, paths
from allyouneed.tasks.parsing.word_features import WordFeatures
from allyouneed.tasks.prepared_data import (
    KIND,
    REPORT,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    PreparedData,
    SourceTokenizer,
    text_path,
)

_COUNTED = {"translation": "pairs", "parsing": "trees"}
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
        (aside / REPORT).write_bytes(json.dumps(contents, indent=1).encode())
        facts |= _facts(aside, config, tokenizers)
    return PreparedData(directory)


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
        text_path(directory, part, "source").open("wb") as sources,
        text_path(directory, part, "target").open("wb") as targets,
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
