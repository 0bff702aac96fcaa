"""Vocabularies as files: JSON with the symbols in the order of their ids, and the settings that made them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allyouneed import publish
from allyouneed.data.tokenizer import CONTROL_SYMBOLS
from allyouneed.errors import ModelError


class VocabularyFile(NamedTuple):
    """A kind of such files."""

    format: str
    """What they name themselves."""
    version: int
    noun: str
    """What a user knows them as."""
    settings: tuple[str, ...]
    """The names of the settings that they hold."""

    def read(self, path: Path, is_sound: Callable[..., bool]) -> tuple[list[str], list[Any]]:
        """The symbols and the settings.

        Args:
            path: The file.
            is_sound: Says of symbols, the control symbols first and none twice, and of settings, in their
                order, whether they can be.

        Raises:
            ModelError: The file is missing, damaged, or no such file.
            DiskError: It may not be read.
        """
        content = publish.read_published(path)
        try:
            found = json.loads(content)
            symbols, settings = found["symbols"], [found[name] for name in self.settings]
            is_one = found["format"] == self.format and found["format_version"] == self.version
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelError(f"{path}: is damaged or no {self.noun} ({error}); take another copy") from None
        if not (is_one and _are_symbols(symbols) and is_sound(symbols, *settings)):
            raise ModelError(f"{path}: is no {self.noun} that this version reads; prepare the data again")
        return symbols, settings

    def write(self, path: Path, symbols: Sequence[str], *settings: object) -> None:
        """Write what `read` reads."""
        content = {
            "format": self.format,
            "format_version": self.version,
            **dict(zip(self.settings, settings, strict=True)),
            "symbols": symbols,
        }
        publish.write_text(path, json.dumps(content, ensure_ascii=False, indent=1))


def _are_symbols(found: object) -> bool:
    return (
        isinstance(found, list)
        and all(isinstance(symbol, str) for symbol in found)
        and tuple(found[: len(CONTROL_SYMBOLS)]) == CONTROL_SYMBOLS
        and len(set(found)) == len(found)
    )
