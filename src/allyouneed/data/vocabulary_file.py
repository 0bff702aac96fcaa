"""Vocabulary files: JSON with the symbols in the order of their ids, and the settings that made them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from allyouneed.errors import ModelError
from allyouneed.storage import publish
from allyouneed.symbols import CONTROL_SYMBOLS, MAX_ENTRIES

_MAX_VALUES = 8 * MAX_ENTRIES  # twice those of so many entries with their merges; JSON takes memory for each


class VocabularyFile(NamedTuple):
    """A kind of vocabulary file."""

    format: str
    """The kind, as recorded in the file."""
    version: int
    noun: str
    """The kind, in messages to users."""
    settings: tuple[str, ...]
    """Names of the settings in the file."""

    def read(
        self, path: Path, is_sound: Callable[..., bool], vocab_size: int | None = None
    ) -> tuple[list[str], list[Any]]:
        """Read the symbols and the settings.

        Args:
            path: The file.
            is_sound: Whether the symbols (control symbols first, none twice) and the settings, in order,
                are valid.
            vocab_size: Number of symbols that the model expects; by default any.

        Raises:
            ModelError: The file is missing, damaged, of another kind, or has another number of symbols.
            DiskError: There is no permission to read the file.
        """
        found = read_json(path, self.noun)
        try:
            symbols, settings = found["symbols"], [found[name] for name in self.settings]
            is_one = found["format"] == self.format and found["format_version"] == self.version
        except (KeyError, TypeError):
            raise _damaged(path, self.noun, "a key is missing") from None
        are_symbols = (
            isinstance(symbols, list)
            and all(isinstance(symbol, str) for symbol in symbols)
            and tuple(symbols[: len(CONTROL_SYMBOLS)]) == CONTROL_SYMBOLS
            and len(set(symbols)) == len(symbols)
        )
        if not (is_one and are_symbols and is_sound(symbols, *settings)):
            raise ModelError(f"{path}: is not a {self.noun} that this version reads; prepare the data again")
        require_size(path, len(symbols), vocab_size)
        return symbols, settings

    def write(self, path: Path, symbols: Sequence[str], *settings: object) -> None:
        """Write a file that `read` can read."""
        content = {
            "format": self.format,
            "format_version": self.version,
            **dict(zip(self.settings, settings, strict=True)),
            "symbols": symbols,
        }
        publish.write_text(path, json.dumps(content, ensure_ascii=False, indent=1))


@dataclass(frozen=True)
class SymbolVocabulary:
    """Symbols, control symbols first, and their ids; a subclass has the settings of its `file` as fields."""

    file: ClassVar[VocabularyFile]
    is_sound: ClassVar[Callable[..., bool]]
    """Whether symbols and settings are valid; see `VocabularyFile.read`."""
    symbols: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Symbol -> id."""
        return {symbol: token for token, symbol in enumerate(self.symbols)}

    @property
    def vocab_size(self) -> int:
        """Number of entries, including control symbols; ids are below it."""
        return len(self.symbols)

    @classmethod
    def load(cls, path: Path, vocab_size: int | None = None) -> Self:
        """Read a file written by `save`, of any size unless `vocab_size` is given.

        Raises:
            ModelError: The file is missing, damaged, of another kind, or of another size.
            DiskError: The file may not be read.
        """
        symbols, settings = cls.file.read(path, cls.is_sound, vocab_size)
        return cls(tuple(symbols), *settings)

    def save(self, path: Path) -> None:
        """Write one JSON file."""
        self.file.write(path, self.symbols, *(getattr(self, name) for name in self.file.settings))

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        raise NotImplementedError

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; see `encode`."""
        return [self.encode(text) for text in texts]


def read_json(path: Path, noun: str) -> Any:
    """Parse a JSON file of at most the size of a vocabulary; `noun` is its kind, for messages.

    Raises:
        ModelError: The file is missing, larger than any vocabulary, or not JSON.
        DiskError: There is no permission to read the file.
    """
    content = publish.read_published(path)
    if sum(map(content.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise _damaged(path, noun, f"it holds more than {_MAX_VALUES:,} values")
    try:
        return json.loads(content)
    except RecursionError:
        raise _damaged(path, noun, "it is nested too deep") from None
    except ValueError as error:
        raise _damaged(path, noun, error) from None


def require_size(path: Path, found: int, wanted: int | None) -> None:
    """Raise ModelError if a vocabulary has another size than the model expects."""
    if wanted not in (None, found):
        raise ModelError(
            f"{path}: has {found:,} entries, but the model was made for {wanted:,}; take another copy of it"
        )


def _damaged(path: Path, noun: str, reason: object) -> ModelError:
    return ModelError(f"{path}: is damaged or not a {noun} ({reason}); take another copy")
