"""Prepares sentence pairs or trees (paper 5.1, 6.3): cleans them, splits them into units, stores their ids.

DATA holds `train/` and optionally `valid/` (token ids, see `data.store`), `text/` (the cleaned lines), both
tokenisers, `report.json` (what was dropped and why) and a manifest.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.corpus import CleaningReport, DropReason, Reader, clean_pairs
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.data.lines import encode_lines
from allyouneed.data.pair_writer import PairWriter
from allyouneed.data.store import Sentences
from allyouneed.errors import DataError, UsageError
from allyouneed.storage.publish import publish_directory, require_free, sha256_of
from allyouneed.symbols import UNKNOWN
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.encoding import EncodedChunk, Encoder, chunks
from allyouneed.tasks.prepared_data import KIND, REPORT, PreparedData, text_path
from allyouneed.tasks.training_text import TrainingText
from allyouneed.tasks.units import SOURCE_TOKENIZER, TARGET_TOKENIZER, Units

if TYPE_CHECKING:
    from allyouneed.tasks.initial_model import InitialModel

_SHORTEST_FOR_RATIO_TOKENS = 20  # for shorter pairs the ratio means little
_UNKNOWN_UNITS = "targets have units that are not in the vocabulary"

_Version = tuple[int, int, int] | None
"""Inode, size and time of the last change of a file; None of one that is gone."""
Advance = Callable[[int], None]
Watch = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Shows the progress of a phase, given its name and its number of examples, if that is known."""


@contextmanager
def _unwatched(phase: str, total: int | None) -> Iterator[Advance]:
    yield lambda count: None


NO_FILES = CorpusFiles()
PAPER_DATA = DataConfig()


def prepare(
    directory: Path | str,
    train: Reader,
    valid: Reader = NO_FILES,
    config: DataConfig | None = None,
    say: Callable[[str], None] = lambda line: None,
    *,
    tokenizer_from: Path | str | None = None,
    num_workers: int | None = None,
    watch: Watch = _unwatched,
) -> PreparedData:
    """Clean the text, learn units from the training part, encode, and publish the result as `directory`.

    Args:
        directory: The directory to make; it must not exist, or be empty.
        train: Training files, such as `CorpusFiles`, or `TreeFiles` for parsing.
        valid: Validation files; may be empty.
        config: Tokeniser and limits; by default the paper's, or those of the model `tokenizer_from`.
        say: Receives messages, line by line: what was sampled, read and dropped, and leftovers of a killed
            process that are removed.
        tokenizer_from: A model whose units are taken instead of learning others, so that training on the data
            can continue it.
        num_workers: Number of further processes for a large corpus, by default one for each core, up to 16.
        watch: Shows the progress of each phase.

    Raises:
        UsageError: `directory` is not free, no file is given, the vocabulary size is impossible, or a setting
            does not suit the task or contradicts the model's units.
        ModelError: The model is missing or damaged.
        DataError: A file is unusable, or no pair is left.
        LockedError: Another process is making `directory`.
    """
    require_free(directory := Path(directory))
    model = None if tokenizer_from is None else _model(tokenizer_from)
    config = config or (model.config.data if model else PAPER_DATA)
    if model:
        model.require_tokenizers_of(config)
    task = task_named(config.task)
    if not train:
        raise UsageError(f"no training text: give {task.training_files}", settings=task.training_files.names)
    task.require_settings(config)
    versions = _versions_of(train, valid)
    facts: dict[str, Any] = {}
    with publish_directory(directory, KIND, facts, say=say) as aside:
        with watch("vocabulary", None) as advance:
            text = TrainingText(train, config, task.examples, say, advance)
            units = model.units if model else task.learn_units(text)
        units.save(aside)
        (aside / "text").mkdir()
        encoder, reports = Encoder(units, aside, config, num_workers, say), {}
        for part, reader in {"train": train, "valid": valid}.items():
            if reader:
                with watch(part, text.num_examples if part == "train" else None) as advance:
                    reports[part] = _encode(aside, part, reader, encoder, config, advance)
        _require_unchanged(versions)
        _tell(reports, task.examples, say)
        contents = json.dumps({part: report.to_dict() for part, report in reports.items()}, indent=1)
        (aside / REPORT).write_bytes(contents.encode())
        facts |= _facts(aside, config, units)
    return PreparedData(directory)


def _model(path: Path | str) -> "InitialModel":
    from allyouneed.tasks.initial_model import InitialModel  # which loads PyTorch

    return InitialModel.read(path)


def _versions_of(*readers: Reader) -> dict[Path, _Version]:
    """The versions of all files, after a missing one has been reported."""
    for reader in readers:
        reader.read(CleaningReport())
    return _versions([file for reader in readers for file in reader.all_files])


def _require_unchanged(versions: Mapping[Path, _Version]) -> None:
    """Check that files are what they were."""
    changed = [file for file, version in _versions(versions).items() if version != versions[file]]
    if changed:
        raise DataError([f"{file}: has changed while it was read; prepare again" for file in changed])


def _versions(files: Iterable[Path]) -> dict[Path, _Version]:
    found: dict[Path, _Version] = dict.fromkeys(files)
    for file in found:
        with contextlib.suppress(OSError):
            status = file.stat()
            found[file] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


def _tell(reports: Mapping[str, CleaningReport], counted: str, say: Callable[[str], None]) -> None:
    for part, report in reports.items():
        for line in report.lines(counted):
            say(f"{part}: {line}")
        if not report.num_kept:
            raise DataError(f"{part}: 0 of {report.num_read} {counted} are left; see the reasons above")


def _encode(
    directory: Path, part: str, files: Reader, encoder: Encoder, config: DataConfig, advance: Advance
) -> CleaningReport:
    """Write the ids of a part, and its cleaned text line by line."""
    report = CleaningReport()
    pairs = clean_pairs(files.read(report), files.limits, report)
    numbered = ((pair, report.num_read) for pair in pairs)
    with (
        PairWriter(directory / part, vocabulary_size=encoder.vocab_size) as writer,
        text_path(directory, part, "source").open("wb") as sources,
        text_path(directory, part, "target").open("wb") as targets,
        closing(encoder.encoded(chunks(numbered))) as stream,
    ):
        for encoded in stream:
            kept, chunk = _kept(encoded, config, report), encoded.chunk
            target = encoded.target.where(kept)
            writer.add(encoded.source.where(kept), target, np.array(chunk.line_numbers)[kept])
            if num_unknown := _num_with_unknown_units(target):
                report.notes[_UNKNOWN_UNITS] += num_unknown
            sources.write(encode_lines(list(compress(chunk.sources, kept))))
            targets.write(encode_lines(list(compress(chunk.targets, kept))))
            advance(len(chunk.pairs))
    return report


def _kept(encoded: EncodedChunk, config: DataConfig, report: CleaningReport) -> NDArray[np.bool_]:
    """Which pairs have the right numbers of tokens; the others are counted in the report."""
    chunk, source, target = encoded
    longer, shorter = np.maximum(source.lengths, target.lengths), np.minimum(source.lengths, target.lengths)
    too_long = longer > config.max_tokens
    with np.errstate(over="ignore"):  # a limit that is infinite
        uneven = (longer > _SHORTEST_FOR_RATIO_TOKENS) & (longer > config.max_length_ratio * shorter)
    uneven &= ~too_long
    if not task_named(config.task).sides_are_alike:
        uneven[:] = False
    for reason, is_dropped in ((DropReason.TOO_MANY_TOKENS, too_long), (DropReason.TOKEN_RATIO, uneven)):
        for index in is_dropped.nonzero()[0]:
            report.drop(reason, chunk.pairs[index])
    kept: NDArray[np.bool_] = ~(too_long | uneven)
    return kept


def _num_with_unknown_units(sentences: Sentences) -> int:
    places = (sentences.ids == UNKNOWN).nonzero()[0]
    return len(np.unique(np.searchsorted(sentences.lengths.cumsum(), places, side="right")))


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
