"""A translation memory: texts with the translations that they get instead of the model's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from allyouneed.data.corpus import CleaningReport
from allyouneed.data.tmx import is_xml, read_tmx
from allyouneed.errors import DataError, UsageError

MOST_UNITS: Final = 1_000_000


@dataclass(frozen=True)
class TranslationMemory:
    """Translations by text; of several units with one text, the first counts."""

    translations: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, file: Path, source_language: str, target_language: str) -> "TranslationMemory":
        """Read a TMX file, unit by unit; it may not declare entities.

        Args:
            file: A TMX file, plain or compressed.
            source_language: Code of the language of the texts.
            target_language: Code of the language of the translations.

        Raises:
            UsageError: A language is empty.
            DataError: The file is no TMX, malformed or has no unit in both languages, or more than a million.
        """
        if not (source_language and target_language):
            raise UsageError(
                f"{file}: the model does not say its languages, which choose the texts of a translation "
                "memory; leave it out, or prepare with source_language and target_language",
                settings=["source_language", "target_language"],
            )
        if not is_xml(file):
            raise DataError(f"{file}: is no translation memory; give a TMX file")
        found = dict[str, str]()
        for pair in read_tmx(file, CleaningReport(), (source_language, target_language)):
            if pair.dropped is None and pair.source.strip() and pair.target.strip():
                found.setdefault(pair.source, pair.target)
            if len(found) > MOST_UNITS:
                raise DataError(
                    f"{file}:{pair.line_number}: more than {MOST_UNITS:,} texts; divide the memory"
                )
        return cls(found)
