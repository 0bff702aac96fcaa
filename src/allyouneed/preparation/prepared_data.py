"""Reads prepared data: a DATA directory, with every file checked."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from numpy.typing import NDArray

from allyouneed.config.run import DataConfig
from allyouneed.data.alignment_guide import AlignmentGuide
from allyouneed.data.lines import read_lines
from allyouneed.data.store import PairStore, require_finite, require_ids_below
from allyouneed.data.vectors import Vectors
from allyouneed.data.vocabulary_file import read_json
from allyouneed.errors import ModelError, UsageError
from allyouneed.storage.publish import MANIFEST, read_manifest, require_intact
from allyouneed.storage.remote import local_copy
from allyouneed.tasks.catalogue import task_named
from allyouneed.tasks.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

KIND = "data"
REPORT = "report.json"
_REPORTED = {"num_read", "num_dropped", "dropped"}
_READ = (
    *(REPORT, "text/*.source", "text/*.target"),
    *(f"{part}/{form}" for part in ("train", "valid") for form in ("header.json", "*.bin")),
)
"""Files that are read if present, in addition to the tokenisers."""
_LARGE_BYTES = 1 << 26
_LATER = "text/*", "*/source-*.bin", "*/target-*.bin", "*/line_numbers.bin"


class PreparedData:
    """A published DATA directory. Its files are checked on opening; shards, line numbers and texts that are
    large are checked when they are first read. Of a URL, a local copy is read.

    Raises:
        ModelError: The directory is damaged, of another version, or does not hold prepared data.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = directory = local_copy(directory)
        manifest = read_manifest(directory, KIND, files_read(directory), later=is_checked_later)
        self._manifest = manifest
        try:
            self.config = DataConfig().replace(**manifest["config"])
            self.task = task_named(self.config.task)
            self.source_vocab_size, self.target_vocab_size = map(
                _positive, (manifest["source_vocab_size"], manifest["target_vocab_size"])
            )
            self.facts: dict[str, str] = dict(manifest["facts"])
            _ = self.facts["source_tokenizer"], self.facts["target_tokenizer"]  # shortlists refer to these
        except UsageError as error:
            raise ModelError(
                f"{directory}: has settings that this version does not know ({error.messages[0]}); "
                "prepare the data again"
            ) from None
        except (KeyError, TypeError, ValueError):
            raise ModelError(f"{directory / MANIFEST}: is damaged; prepare the data again") from None
        self.units = self.task.load_units(
            directory, self.config, self.source_vocab_size, self.target_vocab_size
        )
        self.train = self._store("train")
        self.valid = self._store("valid") if (directory / "valid").is_dir() else None

    def report(self, part: str) -> dict[str, Any]:
        """The report on a part ("train", "valid"); raises ModelError if it is damaged."""
        path = self.directory / REPORT
        try:
            found = dict(read_json(path, "report")[part])
        except (KeyError, TypeError, ValueError):
            found = {}
        if not found.keys() >= _REPORTED:
            raise ModelError(f"{path}: is damaged; prepare the data again")
        return found

    @cached_property
    def tokenizers(self) -> dict[str, bytes]:
        """Contents of the two tokeniser files, as stored in every checkpoint."""
        return {name: (self.directory / name).read_bytes() for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}

    @cached_property
    def guide(self) -> AlignmentGuide:
        """Where target tokens come from, learned from the training pairs."""
        return AlignmentGuide.learn(self.train, self.target_vocab_size)

    def text(self, part: str, side: str) -> Path:
        """The file of the cleaned text of a side of a part, after its content has been checked."""
        path = text_path(self.directory, part, side)
        self._require_intact(path)
        return path

    def lines(self, part: str, side: str) -> list[str]:
        """The cleaned text of a side ("source", "target") of a part ("train", "valid"), pair by pair."""
        path, store = self.text(part, side), self.train if part == "train" else self.valid
        lines = list(read_lines(path, keep_mark=True))
        if store is None or len(lines) != store.num_pairs:
            raise ModelError(
                f"{path}: has {len(lines):,} lines, not one for each pair; prepare the data again"
            )
        return lines

    def held_out(self) -> "tuple[Sequence[str | Vectors], Sequence[str]]":
        """The sources of the validation part, as text or else as vectors, and its targets."""
        store, targets = self.valid, self.lines("valid", "target")
        assert store is not None
        if not self.units.source_features:
            return self.lines("valid", "source"), targets
        return [Vectors(store.source.sentence(index)) for index in range(store.num_pairs)], targets

    def _store(self, part: str) -> PairStore:
        store = PairStore(self.directory / part, self._check)
        if not store.num_pairs:
            raise ModelError(f"{self.directory / part}: holds no pairs; prepare the data again")
        return store

    def _check(self, path: Path, numbers: NDArray[Any]) -> None:
        self._require_intact(path)
        for side, size in (("source", self.source_vocab_size), ("target", self.target_vocab_size)):
            if path.name.startswith(f"{side}-") and numbers.ndim > 1:
                require_finite(path, numbers)
            elif path.name.startswith(f"{side}-"):
                require_ids_below(path, numbers, size)

    def _require_intact(self, path: Path) -> None:
        name = path.relative_to(self.directory).as_posix()
        if is_checked_later(name, self._manifest["files"][name]["size"]):
            require_intact(self.directory, self._manifest, name)


def is_checked_later(name: str, size: int) -> bool:
    """Whether a file of prepared data is so large that its content is checked when it is first read."""
    return size >= _LARGE_BYTES and any(PurePath(name).match(form) for form in _LATER)


def files_read(directory: Path) -> list[str]:
    """Names of the files to read: the tokenisers, and the other data files that exist."""
    found = [path.relative_to(directory).as_posix() for form in _READ for path in directory.glob(form)]
    return [SOURCE_TOKENIZER, TARGET_TOKENIZER, *found]


def _positive(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("a number of entries is wanted")
    return value


def text_path(directory: Path, part: str, side: str) -> Path:
    """Path of the cleaned text of one side ("source", "target") of a part ("train", "valid")."""
    return directory / "text" / f"{part}.{side}"
