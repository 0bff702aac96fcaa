"""Prepares sentence pairs or trees (paper 5.1, 6.3): cleans them, splits them into units, stores their ids.

DATA holds `train/` and optionally `valid/` (token ids, see `data.store`), `text/` (the cleaned lines), both
tokenisers, `report.json` (what was dropped and why) and a manifest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, DropReason, Pair, Reader, clean_pairs
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import encode_line
from allyouneed.data.store import PairWriter
from allyouneed.errors import DataError, UsageError
from allyouneed.storage.publish import publish_directory, require_free, sha256_of
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.prepared_data import KIND, REPORT, PreparedData, text_path
from allyouneed.tasks.training_text import TrainingText
from allyouneed.tasks.units import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units

_SHORTEST_FOR_RATIO_TOKENS = 20  # for shorter pairs the ratio means little
_ENCODED_AT_ONCE = 4_096
_ENCODED_CHARACTERS = 1 << 20  # at once, both sides; each takes about 100 bytes of memory


NO_FILES = CorpusFiles()
PAPER_DATA = DataConfig()


def prepare(
    directory: Path | str,
    train: Reader,
    valid: Reader = NO_FILES,
    config: DataConfig = PAPER_DATA,
    say: Callable[[str], None] = lambda line: None,
) -> PreparedData:
    """Clean the text, learn units from the training part, encode, and publish the result as `directory`.

    Args:
        directory: The directory to make; it must not exist, or be empty.
        train: Training files, such as `CorpusFiles`, or `TreeFiles` for parsing.
        valid: Validation files; may be empty.
        config: Tokeniser and limits.
        say: Receives messages, line by line: what was sampled, read and dropped, and leftovers of a killed
            process that are removed.

    Raises:
        UsageError: `directory` is not free, no file is given, the vocabulary size is impossible, or a setting
            does not suit the task.
        DataError: A file is unusable, or no pair is left.
        LockedError: Another process is making `directory`.
    """
    directory = Path(directory)
    require_free(directory)
    task = task_named(config.task)
    if not train:
        raise UsageError(f"no training text: give {task.training_files}", settings=task.training_files.names)
    task.require_settings(config)
    for files in (train, valid):
        files.read(CleaningReport())  # reports a missing file before any long work
    facts: dict[str, Any] = {}
    with publish_directory(directory, KIND, facts, say=say) as aside:
        units = task.learn_units(TrainingText(train, config, task.examples, say))
        units.save(aside)
        (aside / "text").mkdir()
        reports = {"train": _encode(aside, "train", train, units, config)}
        if valid:
            reports["valid"] = _encode(aside, "valid", valid, units, config)
        counted = task.examples
        for part, report in reports.items():
            for line in report.lines(counted):
                say(f"{part}: {line}")
            if not report.num_kept:
                raise DataError(f"{part}: 0 of {report.num_read} {counted} are left; see the reasons above")
        contents = {part: report.to_dict() for part, report in reports.items()}
        (aside / REPORT).write_bytes(json.dumps(contents, indent=1).encode())
        facts |= _facts(aside, config, units)
    return PreparedData(directory)


def _encode(directory: Path, part: str, files: Reader, units: Units, config: DataConfig) -> CleaningReport:
    """Write the ids of a part, and its cleaned text line by line."""
    report = CleaningReport()
    vocab_size = max(units.source.vocab_size, units.target.vocab_size)
    with (
        PairWriter(directory / part, vocabulary_size=vocab_size) as writer,
        text_path(directory, part, "source").open("wb") as sources,
        text_path(directory, part, "target").open("wb") as targets,
    ):
        for pair, line_number, source, target in _encoded_pairs(files, units, report):
            if reason := _reason_to_drop(len(source), len(target), config):
                report.drop(reason, pair)
                continue
            writer.add(source, target, line_number)
            sources.write(encode_line(pair.source))
            targets.write(encode_line(pair.target))
    return report


def _encoded_pairs(
    files: Reader, units: Units, report: CleaningReport
) -> Iterator[tuple[Pair, int, list[int], list[int]]]:
    """Pairs, their line number across all files, and their ids; encoded in chunks on all cores."""
    pairs = clean_pairs(files.read(report), files.limits, report)
    numbered = ((pair, report.num_read) for pair in pairs)
    while chunk := list(_encoded_together(numbered)):
        sources = units.source.encode_batch([pair.source for pair, _ in chunk])
        targets = units.target.encode_batch([pair.target for pair, _ in chunk])
        for (pair, line_number), source, target in zip(chunk, sources, targets, strict=True):
            yield pair, line_number, source, target


def _encoded_together(numbered: Iterator[tuple[Pair, int]]) -> Iterator[tuple[Pair, int]]:
    """The next pairs to encode together; fewer if they are long."""
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
    if not task_named(config.task).sides_are_alike:
        return None
    if longer > _SHORTEST_FOR_RATIO_TOKENS and longer > config.max_length_ratio * shorter:
        return DropReason.TOKEN_RATIO
    return None


def _facts(directory: Path, config: DataConfig, units: Units) -> dict[str, Any]:
    """Facts about the data that runs check and record."""
    digest = hashlib.sha256()
    for path in sorted((directory / "text").iterdir()):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return {
        "config": config.model_dump(),
        "source_vocab_size": units.source.vocab_size,
        "target_vocab_size": units.target.vocab_size,
        "facts": {
            "corpus": digest.hexdigest(),
            "source_tokenizer": sha256_of(directory / SOURCE_TOKENIZER),
            "target_tokenizer": sha256_of(directory / TARGET_TOKENIZER),
        },
    }
