"""Prepares sentence pairs or trees (paper 5.1, 6.3): cleans them, splits them into units, stores their ids.

DATA holds `train/` and optionally `valid/` (token ids, see `data.store`), `text/` (the cleaned lines), both
tokenisers, `report.json` (what was dropped and why) and a manifest.
"""

import contextlib
import gc
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.config.run import DataConfig
from allyouneed.config.settings import MAX_THREADS
from allyouneed.data.corpus import CleaningReport, Reader, clean_pairs
from allyouneed.data.corpus_files import CorpusFiles
from allyouneed.errors import DataError, UsageError
from allyouneed.hardware.cluster import Cluster
from allyouneed.preparation.encoding import Chunk, EncodedChunk, Encoder, chunks_of
from allyouneed.preparation.journal import EVERY_CHUNKS, FIRST_CHUNKS, UNFINISHED, Journal, Milestone
from allyouneed.preparation.part_writer import PartWriter, without_repeats
from allyouneed.preparation.prepared_data import KIND, REPORT, PreparedData
from allyouneed.preparation.told_languages import with_directions
from allyouneed.storage.publish import publish_directory, require_free, sha256_of
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER, TrainingText, Units, tell
from allyouneed.terms.marked_pairs import MarkedPairs, require_symbols
from allyouneed.version import __version__

if TYPE_CHECKING:
    from allyouneed.runs.initial_model import InitialModel

_Version = tuple[int, int, int] | None
"""Inode, size and time of the last change of a file; None of one that is gone."""
Advance = Callable[[int], None]
Watch = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Shows the progress of a phase, given its name and its number of examples, if that is known."""


NO_FILES = CorpusFiles()


def prepare(
    directory: Path | str,
    train: Reader,
    valid: Reader = NO_FILES,
    config: DataConfig | None = None,
    say: Callable[[str], None] = lambda line: None,
    *,
    tokenizer_from: Path | str | None = None,
    num_workers: int | Cluster | None = None,
    watch: Watch = lambda phase, total: nullcontext(lambda count: None),
) -> PreparedData:
    """Clean the text, learn units from the training part, encode, and publish the result as `directory`.

    Args:
        directory: The directory to make; it must not exist, or be empty.
        train: Training files, such as `CorpusFiles`, or `TreeFiles` for parsing.
        valid: Validation files; may be empty.
        config: Tokeniser and limits; by default the paper's, or those of the model `tokenizer_from`.
        say: Receives messages, line by line: what was sampled, read and dropped, and what becomes of the work
            of a killed process, which is gone on with or removed.
        tokenizer_from: A model whose units are taken, so that training on the data can continue it.
        num_workers: Number of further processes for a large corpus, by default one for each core, up to 16;
            or a Ray cluster, whose processes are used.
        watch: Shows the progress of each phase.

    Raises:
        UsageError: `directory` is not free, no file is given, the vocabulary size or number of processes is
            impossible, or a setting does not suit the task or contradicts the model's units.
        ModelError: The model is missing or damaged.
        DataError: A file is unusable, or no pair is left.
        LockedError: Another process is making `directory`.
    """
    require_free(directory := Path(directory))
    model = None if tokenizer_from is None else _model(tokenizer_from)
    config = config or (model.config.data if model else DataConfig(vocab_size=0))
    if model:
        model.require_tokenizers_of(config)
    config = with_directions(config, train, valid, model.units if model else None)
    train = MarkedPairs.of(train, config)
    task = task_named(config.task)
    _require_usable(train, config, num_workers)
    versions = _versions([*train.all_files, *valid.all_files])
    _require_pairs(valid, task.examples, say)
    facts: dict[str, Any] = {}
    with publish_directory(directory, KIND, facts, unfinished=UNFINISHED, say=say) as aside:
        journal = Journal(aside, _request(config, train, versions, model), say)
        (units, begun), reports = _units(aside, train, config, model, journal.milestone, say, watch), {}
        with watch("train", begun.num_examples) as advance:
            encoder = Encoder(units, aside, config, train.limits.languages, num_workers, say)
            reports["train"] = _encode_training(aside, train, encoder, config, advance, begun, journal)
        if valid:
            with watch("valid", None) as advance:
                encoder = Encoder(units, aside, config, None, num_workers, say)
                reports["valid"] = encode_part(aside, "valid", valid, encoder, config, advance)
        _require_unchanged(versions)
        tell(reports, task.examples, say)
        sized = config.replace(vocab_size=config.vocab_size or max(begun.vocab_sizes))
        facts |= finished(aside, sized, units, reports)
    return PreparedData(directory)


def _require_usable(train: Reader, config: DataConfig, num_workers: int | Cluster | None) -> None:
    if isinstance(num_workers, int) and not 0 <= num_workers <= MAX_THREADS:
        raise UsageError(f"num_workers {num_workers}: give 0 to {MAX_THREADS:,}", settings=["num_workers"])
    task = task_named(config.task)
    if not train:
        raise UsageError(f"no training text: give {task.training_files}", settings=task.training_files.names)
    task.require_settings(config)
    for name in ("placeholders", "annotate_terms"):
        if getattr(config, name) and not (name in task.data_settings and isinstance(train, MarkedPairs)):
            raise UsageError(f"{name}: is for sentence pairs; leave it out", settings=[name])
    if config.bpe_dropout and ("bpe_dropout" not in task.data_settings or config.tokenizer != "bpe"):
        raise UsageError(
            "bpe_dropout: is for sentence pairs and the tokenizer bpe; leave it out",
            settings=["bpe_dropout", "tokenizer"],
        )
    train.require_usable()
    train.read(CleaningReport())  # tells which files are missing


def _units(
    directory: Path,
    train: Reader,
    config: DataConfig,
    model: "InitialModel | None",
    found: Milestone | None,
    say: Callable[[str], None],
    watch: Watch,
) -> tuple[Units, Milestone]:
    """Learn the units of a directory that has just begun, or take a model's; else load them."""
    task = task_named(config.task)
    if found:
        return task.load_units(directory, config, *found.vocab_sizes), found
    with watch("vocabulary", None) as advance:
        text = TrainingText(train, config, task.examples, say, advance)
        units = model.units if model else task.learn_units(text)
        require_symbols(units, config)
    units.save(directory)
    (directory / "text").mkdir()
    sizes = units.source.vocab_size, units.target.vocab_size
    return units, Milestone(0, sizes, text.num_examples, CleaningReport())


def _model(path: Path | str) -> "InitialModel":
    from allyouneed.runs.initial_model import InitialModel  # which loads PyTorch

    return InitialModel.read(path)


def _require_unchanged(versions: Mapping[Path, _Version]) -> None:
    changed = [file for file, version in _versions(versions).items() if version != versions[file]]
    if changed:
        raise DataError([f"{file}: has changed while it was read; prepare again" for file in changed])


def _require_pairs(valid: Reader, counted: str, say: Callable[[str], None]) -> None:
    """Read the validation files once, so that their faults are found before the training part is written."""
    report = CleaningReport()
    for _ in clean_pairs(valid.read(report), valid.limits, report):
        pass
    if valid and not report.num_kept:
        tell({"valid": report}, counted, say)


def _versions(files: Iterable[Path]) -> dict[Path, _Version]:
    found: dict[Path, _Version] = dict.fromkeys(files)
    for file in found:
        with contextlib.suppress(OSError):
            status = file.stat()
            found[file] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


def _encode_training(
    directory: Path,
    files: Reader,
    encoder: Encoder,
    config: DataConfig,
    advance: Advance,
    begun: Milestone,
    journal: Journal,
) -> CleaningReport:
    """Write the training part from a milestone on."""
    report, (num_chunks, *_, found_before) = CleaningReport(), begun
    chunks = _chunks(files, report, encoder)
    if files.limits.drop_repeats:
        chunks = without_repeats(chunks, report)
    for _ in range(num_chunks):
        if (chunk := next(chunks, None)) is None:
            raise DataError(f"{directory}: what is unfinished has more than its files; prepare again")
        advance(len(chunk.pairs))
    dropouts, weights = encoder.dropouts(config.bpe_dropout), files.weights_by_file()
    sizes = encoder.vocab_size, encoder.source_features
    with (
        _no_collections(),
        PartWriter(directory, "train", *sizes, config, weights, found_before, dropouts) as writer,
        closing(encoder.encoded(chunks)) as stream,
    ):
        for number, encoded in enumerate(stream, num_chunks + 1):
            writer.add(encoded)
            advance(len(encoded.chunk.pairs))
            if number == FIRST_CHUNKS or number % EVERY_CHUNKS == 0:
                writer.flush()
                journal.record(begun._replace(num_chunks=number, report=writer.report))
    report.add(writer.report)
    return report


@contextmanager
def _no_collections() -> Iterator[None]:
    """Turn off Python's collector of cycles: it would look at the pairs again and again, and find none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def encode_part(
    directory: Path,
    part: str,
    files: Reader,
    encoder: Encoder,
    config: DataConfig,
    advance: Advance = lambda count: None,
    marked: Callable[[EncodedChunk], EncodedChunk] = lambda encoded: encoded,
) -> CleaningReport:
    """Write a part in which pairs may come again, such as the validation part; each chunk as `marked`."""
    report, dropouts = CleaningReport(), encoder.dropouts(config.bpe_dropout if part == "train" else 0.0)
    sizes = encoder.vocab_size, encoder.source_features
    with (
        PartWriter(directory, part, *sizes, config, {}, report, dropouts) as writer,
        closing(encoder.encoded(_chunks(files, report, encoder))) as stream,
    ):
        for encoded in stream:
            writer.add(marked(encoded))
            advance(len(encoded.chunk.pairs))
    return report


def _chunks(files: Reader, report: CleaningReport, encoder: Encoder) -> Iterator[Chunk]:
    pairs = clean_pairs(files.read(report), files.limits, report)
    return chunks_of(((encoder.mark(pair), report.num_read) for pair in pairs), encoder.most_pairs)


def _request(
    config: DataConfig, train: Reader, versions: Mapping[Path, _Version], model: "InitialModel | None"
) -> str:
    """A digest of everything that the training part depends on."""
    files = [(str(file), version) for file, version in versions.items()]
    contents = [
        __version__,
        config.model_dump(),
        repr(train),
        files,
        model and [str(model.directory), model.weights_sha256],
    ]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def finished(
    directory: Path, config: DataConfig, units: Units, reports: Mapping[str, CleaningReport]
) -> dict[str, Any]:
    """Write the reports on the parts; return the facts for the manifest of the data, which are complete."""
    told = {part: report.to_dict() for part, report in reports.items()}
    (directory / REPORT).write_bytes(json.dumps(told, indent=1).encode())
    digest = hashlib.sha256(f"{config.bpe_dropout}\n".encode() if config.bpe_dropout else b"")
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
